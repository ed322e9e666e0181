"""What the enrichments of a DataFrame are: the join of each, its budget, and why it was taken."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from penstock.budget import format_bytes
from penstock.costs.choosing import options_of
from penstock.spark.checks import marks, require_dataframe
from penstock.spark.defining import Definition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger("penstock")
_KEPT = 1000
_TOLD_ANYWAY = ("budget", "max_wait", "pack")
_UNKNOWN = "defined by another process."
_told: OrderedDict[str, str] = OrderedDict()
"""What was told of the enrichments that were defined last, by their identity."""


def tell(definition: Definition, budget: int, file: str | None = None) -> None:
    """Log what an enrichment is, and remember it for `explain`; `file` is that of its plan."""
    plan, chosen = definition.enrichment.plan, definition.examined.chosen
    waits = definition.waits and plan.max_wait is not None
    how = f"rows wait up to {plan.max_wait:g} s" if waits else "every row at once"
    given = {n: v for n, v in options_of(plan).items() if n not in _TOLD_ANYWAY}
    options = "".join(f", {n}={v}" for n, v in given.items())
    why = f"; chosen because {chosen.why}" if chosen is not None else ""
    if file is not None:
        why = f"; as {file} says"
    text = f"{plan.title}, {format_bytes(budget)} in each worker, {how}{options}{why}."
    _LOG.info("%s: %s", definition.name, text)
    _told[definition.enrichment.identity] = text
    while len(_told) > _KEPT:
        _told.popitem(last=False)


def explain(df: DataFrame) -> str:
    """What each `enrich` of this DataFrame is, a line for each: its join, its budget, and why.

    For enrichments that this process defined, of which a column is left.

    >>> print(penstock.spark.explain(enriched))  # doctest: +SKIP
    """
    require_dataframe(df)
    found = explained(df)
    if not found:
        return "no column of this DataFrame was added by enrich."
    return "\n".join(f"{name}: {text}" for name, text in found.items())


def explained(df: DataFrame) -> dict[str, str]:
    """The same by the name of each; the text begins with the join's."""
    return {one["name"]: _told.get(one.get("identity", ""), _UNKNOWN) for one in marks(df.schema)}
