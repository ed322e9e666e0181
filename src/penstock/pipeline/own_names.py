"""Names of columns that a pipeline needs for itself; Spark tells none apart by their case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.pipeline.definition import KafkaSink, Pipeline
from penstock.pipeline.reading import PipelineError
from penstock.pipeline.sinks.base import BATCH

UNREADABLE = "_unreadable"
"""The column with the text of a row that is dead: one that is not what the columns say, or that an
earlier step lost; null of all others."""
WHY = "_unreadable_why"
"""The column with the reason, of sources that know more than one."""
MISSED, ASIDE = "_penstock_missed_{}", "_penstock_miss"
"""The column with the reason why a step lost the row; and `_miss`, out of a step's way."""
DEAD_LETTER = REASON, STEP, ROW = "_reason", "_step", "_row"
"""Of a dead letter: why, where, and what it was, as JSON."""
_TASK = "_penstock_task"
"""What a staging table of PostgreSQL tells its tasks by."""


def refuse_own_names(names: Iterable[str], where: str) -> None:
    """Raise where one of the rows' columns has a name that dead letters are told by."""
    for name in names:
        told = name.casefold()
        if told in (UNREADABLE, WHY) or told.startswith(ASIDE):
            raise PipelineError(
                f"{where}: {name!r} is the pipeline's own, for dead letters. Rename that column, "
                "or leave it out."
            )


def repeated(names: Sequence[str]) -> list[str]:
    """The names that are there more than once, in any case.

    >>> repeated(["a", "b", "A"])
    ['a', 'A']
    """
    told = [name.casefold() for name in names]
    return [name for name, as_told in zip(names, told, strict=True) if told.count(as_told) > 1]


def require_names(written: Sequence[str], pipeline: Pipeline) -> None:
    """Raise unless the columns that are written can be told apart, and from the sinks' own."""
    own = [BATCH]
    if any(sink.kind == "postgresql" for sink in pipeline.sink):
        own.append(_TASK)
    for name in written:
        if name.casefold() in own:
            raise PipelineError(f"columns: {name!r} is the pipeline's own; rename that column.")
    twice = repeated(written)
    if twice:
        raise PipelineError(
            f"columns: {', '.join(map(repr, twice))} would have one name to Spark. Rename one, or "
            "leave it out by keep."
        )
    named = [(f"sink.{number}", sink, list(written)) for number, sink in enumerate(pipeline.sink)]
    if pipeline.dead_letters is not None:
        named.append(("dead_letters", pipeline.dead_letters, [*DEAD_LETTER]))
    for where, sink, has in named:
        key = sink.key if isinstance(sink, KafkaSink) else None
        if key is not None and key.casefold() not in [name.casefold() for name in has]:
            raise PipelineError(
                f"{where}.key: there is no column {key!r} among those that are written: "
                f"{', '.join(has)}."
            )
