"""`build_master` on Spark: an R that one process should not sort.

Spark sorts the rows by their key's code over all executors; each task writes one range of codes as
a page file of its own, and one task puts these together. The codes are the core's, so that the file
holds what a build in one process would have made of the same rows: Spark computes them by itself
for keys of integers, dates, strings and binaries, and Python does for all others.
"""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from penstock.budget import Size
from penstock.errors import MasterError, OptionError, PenstockError
from penstock.keys import HASH_SEED, codes_of, family
from penstock.masters import MasterInfo, PageFileMaster
from penstock.masters.page_cuts import PageCutter
from penstock.masters.page_file_build import (
    PAGE_BYTES,
    _behind_links,
    _check_target,
    _page_size,
    _sync_folder,
)
from penstock.masters.page_file_parts import join_parts
from penstock.masters.page_file_write import PageWriter
from penstock.masters.plain_types import plain_batch, plain_schema
from penstock.masters.requests import key_names
from penstock.spark.schemas import refuse_collations
from penstock.spark.shards import _SPARK_SEED

Batches = Iterator[pa.RecordBatch]
T = TypeVar("T")
_CODE = "code"
_ANSWER = "answer binary"


@dataclass(frozen=True)
class _Part:
    """What a task has written: a page file of a range of codes."""

    path: str
    first: int
    last: int


def build_master(
    source: DataFrame | str | os.PathLike[str],
    target: str | os.PathLike[str],
    key: str | Sequence[str],
    *,
    spark: SparkSession | None = None,
    page_bytes: Size = PAGE_BYTES,
    partitions: int | None = None,
    overwrite: bool = True,
    hash_seed: int = HASH_SEED,
    version: str | None = None,
) -> MasterInfo:
    """Sort a DataFrame by key on all executors and write it as one page file.

    The file appears at `target` complete or not at all, as with `penstock.build_master`. Rows with
    a null key are left out and counted. Rows of one key are in no particular order.

    Args:
        source: a DataFrame that does not stream, of classic Spark or Connect, or the path of a
            Parquet file or folder as executors see it.
        target: the page file, on a path that every executor sees: a shared file system, or any
            when all executors are on one machine.
        key: the key column, or several; commas in one text separate them.
        spark: the session that reads a path; the active one if not given.
        page_bytes: row bytes of a page.
        partitions: parts that are sorted by one task each; Spark's shuffle partitions if not given.
        overwrite: whether a file that is at `target` may be replaced.
        hash_seed: seed of the codes of strings, wide decimals and composite keys.
        version: name of this version of R, new for every build unless given.
    """
    df = _frame(source, spark)
    if partitions is not None and partitions < 1:
        raise OptionError.out_of_range("partitions", partitions, "a whole number from 1 on")
    page_size, place = _page_size(page_bytes), Path(target).absolute()
    schema = plain_schema(df.limit(0).toArrow().schema).remove_metadata()
    names = key_names(key, schema, "the source")
    refuse_collations(df.schema, names)
    work = _Work(schema, names, hash_seed, page_size, place, overwrite, version or uuid.uuid4().hex)
    on_executor(df.sparkSession, work.begin)
    try:
        # Numbers for names: PySpark takes a name with a dot for a path.
        plain = df.toDF(*[f"c{number}" for number in range(len(schema))])
        keys = [F.col(f"c{schema.get_field_index(name)}") for name in names]
        missing = reduce(or_, [column.isNull() for column in keys])
        dropped = plain.where(missing).count()
        rows = _ordered(plain.where(~missing), keys, work, partitions)
        answers = rows.mapInArrow(_task(work.write_part), _ANSWER).collect()
        parts = [cast(_Part, _answered(row[0])) for row in answers]
        parts.sort(key=lambda part: part.first)
        return on_executor(df.sparkSession, lambda: work.finish(parts, dropped))
    finally:
        on_executor(df.sparkSession, work.clean_up)


def require_parquet(source: str) -> None:
    """Raise for a file that is not Parquet by its name."""
    if "://" not in source and Path(source).is_file() and not source.endswith((".parquet", ".pq")):
        raise MasterError(
            f"Spark builds from Parquet files (.parquet), and {source} is no such file. Build from "
            "it in one process (without --engine spark), or give a DataFrame from Python."
        )


def _frame(source: Any, spark: SparkSession | None) -> DataFrame:
    if isinstance(source, str | os.PathLike):
        session = spark or SparkSession.getActiveSession()
        if session is None:
            raise OptionError("there is no Spark session to read the source with; give spark=…")
        text = os.fspath(source)
        require_parquet(text)
        return session.read.parquet(text)
    if not isinstance(source, DataFrame):
        raise OptionError(
            f"a master is built on Spark from a DataFrame or a path, not a {type(source).__name__}."
        )
    if source.isStreaming:
        raise OptionError("a master is built from a DataFrame that does not stream.")
    return source


def _ordered(
    df: DataFrame, keys: Sequence[Column], work: _Work, partitions: int | None
) -> DataFrame:
    """The rows in partitions by range of code, each in the order of codes."""
    code = _code_in_spark(keys, work.key_types, work.hash_seed)
    if code is not None:
        coded = df.withColumn(_CODE, code)
    else:
        schema = StructType([*df.schema.fields, StructField(_CODE, LongType())])
        coded = df.mapInArrow(_batches(work.add_codes), schema)
    number = () if partitions is None else (partitions,)
    spread = coded.repartitionByRange(*number, F.col(_CODE))
    ordered: DataFrame = spread.sortWithinPartitions(_CODE).drop(_CODE)
    return ordered


def _code_in_spark(
    keys: Sequence[Column], types: Sequence[pa.DataType], seed: int
) -> Column | None:
    """The core's code as an expression, where Spark computes the same."""
    columns = []
    for column, t in zip(keys, types, strict=True):
        if family(t) == "integer":
            columns.append(column.cast("bigint"))
        elif pa.types.is_date32(t):
            columns.append(F.unix_date(column).cast("bigint"))
        elif family(t) in ("string", "binary"):
            columns.append(column)
        else:
            return None
    if len(columns) == 1 and family(types[0]) not in ("string", "binary"):
        return columns[0]
    return F.xxhash64(*columns) if seed == _SPARK_SEED else None


@dataclass(frozen=True)
class _Work:
    """What the tasks of one build do; each method runs on an executor."""

    schema: pa.Schema
    key: tuple[str, ...]
    hash_seed: int
    page_bytes: int
    named: Path
    overwrite: bool
    version: str

    @property
    def target(self) -> Path:
        return _behind_links(self.named)

    @property
    def key_types(self) -> list[pa.DataType]:
        return [self.schema.field(name).type for name in self.key]

    @property
    def folder(self) -> Path:
        """Where the parts are written: beside the target, so that a rename puts the file there."""
        return self.target.parent / f".{self.target.name}.building-spark-{self.version}"

    def begin(self) -> None:
        _check_target(self.target, self.overwrite)
        self.folder.mkdir(exist_ok=True)

    def add_codes(self, batches: Batches) -> Batches:
        for batch in batches:
            codes = pa.array(self._codes(self._named(batch)))
            fields = [*batch.schema, pa.field(_CODE, pa.int64())]
            yield pa.RecordBatch.from_arrays([*batch.columns, codes], schema=pa.schema(fields))

    def write_part(self, batches: Batches) -> _Part | None:
        """Write the rows, which are in order, as a page file; None when there are none."""
        if not self.folder.is_dir():
            raise MasterError(
                f"there is no folder {self.folder} on an executor. Every executor must write to "
                "the same folder: name a target on a path that all of them share."
            )
        path = self.folder / f"{uuid.uuid4().hex}.part"
        cutter = PageCutter(self.page_bytes)
        first = last = None
        with PageWriter(
            path, self.schema, self.key, hash_seed=self.hash_seed, version=self.version
        ) as writer:
            for batch in batches:
                if not batch.num_rows:
                    continue
                rows = self._named(batch)
                codes = self._codes(rows)
                if (last is not None and codes[0] < last) or np.any(np.diff(codes) < 0):
                    raise MasterError(
                        "Spark gave rows that are not in the order of their keys' codes; build "
                        "in one process, and please report this."
                    )
                first, last = int(codes[0]) if first is None else first, int(codes[-1])
                for page in cutter.add(codes, rows):
                    writer.write(*page)
            if first is None or last is None:
                path.unlink()
                return None
            for page in cutter.finish():
                writer.write(*page)
            writer.finish(page_bytes=self.page_bytes, null_keys_dropped=0)
        return _Part(str(path), first, last)

    def finish(self, parts: Sequence[_Part], null_keys_dropped: int) -> MasterInfo:
        """Put the parts together, and the file in its place."""
        if any(a.last >= b.first for a, b in pairwise(parts)):
            raise MasterError("two parts of the master have the same codes; build it again.")
        finished = self.folder / "pages.arrow"
        join_parts(
            [Path(part.path) for part in parts],
            finished,
            self.schema,
            self.key,
            hash_seed=self.hash_seed,
            version=self.version,
            page_bytes=self.page_bytes,
            null_keys_dropped=null_keys_dropped,
        )
        with PageFileMaster(finished) as master:
            info = replace(master.info(), path=str(self.named))
        _check_target(self.target, self.overwrite)
        finished.replace(self.target)
        _sync_folder(self.target.parent)
        return info

    def clean_up(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return plain_batch(batch.rename_columns(self.schema.names), self.schema)

    def _codes(self, rows: pa.RecordBatch) -> Any:
        return codes_of([rows.column(name) for name in self.key], self.hash_seed)


def _batches(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """A method as a function, which is what Spark takes."""

    def run(batches: Batches) -> Batches:
        return function(batches)

    return run


def _task(function: Callable[[Batches], object]) -> Callable[[Batches], Batches]:
    """A task of one row: what the function returns, or the error that says what went wrong."""

    def run(batches: Batches) -> Batches:
        try:
            answer = function(batches)
        except PenstockError as error:
            answer = error
        except OSError as error:
            where = f" to {error.filename}" if error.filename else ""
            room = " Make room, or name a target on another disk." * (error.errno == errno.ENOSPC)
            why = error.strerror or error
            answer = MasterError(f"cannot write the master{where}: {why}.{room}")
        if answer is not None:
            yield pa.record_batch({"answer": pa.array([pickle.dumps(answer)], pa.binary())})

    return run


def _answered(pickled: Any) -> object:
    answer = pickle.loads(bytes(pickled))
    if isinstance(answer, Exception):
        raise answer
    return answer


def on_executor(spark: SparkSession, function: Callable[[], T]) -> T:
    """Call a function where the executors' files are; what it raises is raised here."""
    one = spark.range(0, 1, 1, 1)
    task = _task(lambda _: (function(),))
    rows = one.mapInArrow(task, _ANSWER).collect()
    return cast(tuple[T], _answered(rows[0][0]))[0]
