"""A pipeline file into its definition; what is wrong with it, in words and all at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from penstock.budget import parse_bytes
from penstock.durations import parse_duration
from penstock.errors import OptionError, PenstockError, did_you_mean
from penstock.joins.names import named
from penstock.joins.waits import WaitLimit
from penstock.masters.databases.address import TableAddress, refuse_odd_address
from penstock.pipeline.definition import KafkaSource, Pipeline, PostgresSink
from penstock.pipeline.paths import with_paths_of
from penstock.pipeline.places import shared_places
from penstock.pipeline.schema_registry import SchemaRegistry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class PipelineError(OptionError):
    """A pipeline file that does not say what it must."""

    is_list = True
    """Its message has a line for each fault."""


def first_line(error: Exception) -> str:
    """The first line of all that an error says, of Spark's without the state of SQL."""
    said = str(error).strip().splitlines()
    return said[0].partition(" SQLSTATE")[0] if said else type(error).__name__


def read_pipeline(path: str | os.PathLike[str]) -> Pipeline:
    """The pipeline that a file defines; paths in it are relative to the file."""
    file = Path(path)
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PipelineError(
            f"there is no file {file}. `penstock init {file}` writes one that runs."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"cannot read {file}: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{file} is no TOML: {error}.") from error
    except RecursionError as error:
        raise PipelineError(
            f"{file} cannot be read: lists or tables are nested too deep."
        ) from error
    except ValueError as error:
        raise PipelineError(f"{file} cannot be read: {error}.") from error
    return define(said, str(file), file.absolute().parent)


def define(
    said: dict[str, Any], where: str = "the pipeline", folder: Path | None = None
) -> Pipeline:
    """The definition that these tables make, or PipelineError with every fault. Relative paths in
    it begin in the folder, if one is given.
    """
    if isinstance(said.get("sink"), dict):
        said = {**said, "sink": [said["sink"]]}  # [sink] is one, [[sink]] several
    try:
        pipeline = Pipeline.model_validate(said)
    except ValidationError as error:
        faults = list(_faults(error, said))
        listed = "".join(f"\n  {fault}" for fault in faults)
        raise PipelineError(f"{where} cannot be run:{listed}") from error
    if folder is not None:
        pipeline = with_paths_of(folder, pipeline)
    _require_sense(pipeline, where)
    return pipeline


def _faults(error: ValidationError, said: dict[str, Any]) -> Iterator[str]:
    for fault in error.errors(include_url=False, include_input=False):
        place = [part for part in fault["loc"] if not _is_tag(part, fault["loc"])]
        name = ".".join(str(part) for part in place)
        if fault["type"] == "extra_forbidden":
            known = _known_names(said, place[:-1])
            yield f"{name}: there is no such key.{did_you_mean(str(place[-1]), known)}"
        elif fault["type"] == "missing":
            yield f"{name}: is missing."
        else:
            message = fault["msg"]
            yield f"{name}: {message[0].lower()}{message[1:]}."


_KINDS = {"kafka", "json", "csv", "parquet", "penstock_sales", "delta", "postgresql", "console"}


def _is_tag(part: object, place: tuple[Any, ...]) -> bool:
    """Whether a part of a fault's place is pydantic's name for a kind, which the file has not."""
    return part in _KINDS and place[0] in ("source", "sink", "dead_letters") and part != place[-1]


def _known_names(said: dict[str, Any], place: list[Any]) -> list[str]:
    """The keys that a table of the file may have."""
    model: Any = Pipeline
    value: Any = said
    for part in place:
        value = value[part] if isinstance(value, dict | list) else None
        if isinstance(part, str):
            model = model.model_fields[part].annotation
    kind = value.get("kind") if isinstance(value, dict) else None
    return [
        field.alias or name
        for found in _models(model, kind)
        for name, field in found.model_fields.items()
    ]


def _models(annotation: Any, kind: object) -> Iterator[type[BaseModel]]:
    """The models within an annotation, those of one kind where it is given."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        tag = annotation.model_fields.get("kind")
        if tag is None or kind is None or kind in get_args(tag.annotation):
            yield annotation
        return
    for inner in get_args(annotation):
        yield from _models(inner, kind)


def _require_sense(pipeline: Pipeline, where: str) -> None:
    """What no single field can tell."""
    faults: list[str] = []
    if isinstance(pipeline.source, KafkaSource):
        faults += _faults_of_format(pipeline.source)
    faults += _faults_of_addresses(pipeline)
    faults += _faults_of_options(pipeline)
    waiting = [step for step in pipeline.enrich if step.max_wait is not None]
    if len(waiting) > 1:
        faults.append(
            f"enrich: {len(waiting)} enrichments wait (max_wait), and one of a query may. Let all "
            "but one answer at once."
        )
    faults += _faults_of_names(pipeline)
    faults += shared_places(pipeline)
    if pipeline.dead_letters is None:
        for number, step in enumerate(pipeline.enrich):
            if step.misses == "dead-letter":
                faults.append(
                    f"enrich.{number}.misses: rows are to be dead letters, and there is no "
                    "[dead_letters] to send them to."
                )
    if pipeline.trigger != "available-now":
        try:
            parse_duration(pipeline.trigger, "trigger")
        except PenstockError as error:
            faults.append(f"{error} Or available-now.")
    if faults:
        raise PipelineError(f"{where} cannot be run:" + "".join(f"\n  {f}" for f in faults))


def _faults_of_addresses(pipeline: Pipeline) -> Iterator[str]:
    """Said before paths are made of them, which errors show."""
    for number, step in enumerate(pipeline.enrich):
        yield from _fault_of(f"enrich.{number}.master", refuse_odd_address, step.master)
    for number, sink in enumerate(pipeline.sink):
        if isinstance(sink, PostgresSink):
            yield from _fault_of(f"sink.{number}.server", TableAddress.parse, sink.server)
    if isinstance(pipeline.dead_letters, PostgresSink):
        server = pipeline.dead_letters.server
        yield from _fault_of("dead_letters.server", TableAddress.parse, server)


def _faults_of_options(pipeline: Pipeline) -> Iterator[str]:
    """Sizes, times and names that `enrich` would refuse, one step after the other."""
    checks: dict[str, Callable[[str], object]] = {
        "budget": parse_bytes,
        "max_wait": WaitLimit.parse,
        "staleness": lambda given: parse_duration(given, "staleness"),
        "retry_for": lambda given: parse_duration(given, "retry_for"),
        "retry_misses": lambda given: parse_duration(given, "retry_misses"),
        "join": lambda given: given == "auto" or named(given),
    }
    for number, step in enumerate(pipeline.enrich):
        for name, check in checks.items():
            given = getattr(step, name)
            if given is not None:
                yield from _fault_of(f"enrich.{number}.{name}", check, given)


def _fault_of(name: str, check: Callable[[str], object], given: str) -> Iterator[str]:
    try:
        check(given)
    except PenstockError as error:
        yield f"{name}: {error}"


def _faults_of_names(pipeline: Pipeline) -> Iterator[str]:
    """Dead letters tell by the names of steps which of them lost a row."""
    taken = {"source": "the source's"}
    for number, step in enumerate(pipeline.enrich):
        name = step.called(number)
        if name in taken:
            yield f"enrich.{number}.name: {name!r} is {taken[name]} name; give it another."
        taken.setdefault(name, f"enrich.{number}'s")


def _faults_of_format(source: KafkaSource) -> Iterator[str]:
    if source.format == "json":
        if source.columns is None:
            yield "source.columns: is missing. JSON does not tell the types of its fields."
        for name, given in (("schema", source.avro_schema), ("registry", source.registry)):
            if given is not None:
                yield f'source.{name}: is for Avro; write format = "avro".'
        return
    if source.columns is not None:
        yield "source.columns: Avro's schema says them. Leave it out; [columns] keep takes some."
    if source.avro_schema is None and source.registry is None:
        yield "source.schema: is missing. Name the file of the Avro schema, or a registry."
    if source.registry is not None:
        try:
            SchemaRegistry(source.registry)
        except PenstockError as error:
            yield f"source.{error}"
