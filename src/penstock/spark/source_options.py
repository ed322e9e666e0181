"""The options of the source `penstock_sales`, checked; and the workload that they ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from penstock.errors import OptionError, did_you_mean
from penstock.streams import (
    AbruptDrift,
    Arrivals,
    Bursty,
    ConstantRate,
    Drift,
    GradualDrift,
    SalesStream,
    WorkloadError,
)

_EVENT_RATE = 1000.0
"""Rows per second of event time where no rate is given."""
_VIRTUAL_STREAMS = 10
_DRIFTS = (
    "'none', 'gradual:PERIOD' or 'gradual:PERIOD:STEP' (every so many rows the hottest so many "
    "products fall to the end), or 'abrupt:ROW,ROW' (row numbers, ascending, at which others "
    "become hot)"
)


@dataclass(frozen=True)
class SalesOptions:
    """What a reader of `penstock_sales` was asked for.

    Attributes:
        workload: the sales; every row a function of its number.
        recipe: the options that decide what the rows are, as a checkpoint keeps them.
        rows: the number of rows after which the stream grows no more; None: it never ends.
        paced: whether rows become available as time passes, or all at once.
        rows_per_batch: the most that a micro-batch takes; None: all that is available.
        partitions: the most tasks of a micro-batch.
        checkpoint: the query's checkpoint, where Spark does not tell a source its start.
    """

    workload: SalesStream
    recipe: tuple[tuple[str, str], ...]
    rows: int | None
    paced: bool
    rows_per_batch: int | None
    partitions: int
    checkpoint: str | None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SalesOptions:
        """The options as Spark hands them over; names in any case. OptionError says what is wrong.

        >>> SalesOptions.parse({"products": "5000", "rows": "100"}).rows
        100
        >>> SalesOptions.parse({"skew": "7"})
        Traceback (most recent call last):
        penstock.errors.OptionError: skew='7' cannot be; give a number from 0 to 2.
        """
        known = {name.casefold(): name for name in _PARSERS}
        for name in given:
            if name.casefold() not in known:
                raise OptionError(
                    f"penstock_sales has no option {name!r}.{did_you_mean(name, _PARSERS)} Its "
                    f"options are: {', '.join(_PARSERS)}."
                )
        texts = {known[name.casefold()]: text for name, text in given.items()}
        found = {
            name: parser(name, texts[name]) if name in texts else default
            for name, (parser, default) in _PARSERS.items()
        }
        workload = SalesStream(
            products=found["products"],
            skew=found["skew"],
            order=found["order"],
            missing=found["missing"],
            drift=found["drift"],
            arrivals=_arrivals(found["rowsPerSecond"], found["bursts"], found["seed"]),
            seed=found["seed"],
            zipf=found["zipf"],
            starts_at=found["startsAt"],
        )
        return cls(
            workload,
            tuple((name, _as_kept(found[name])) for name in _DECIDING),
            found["rows"],
            found["rowsPerSecond"] is not None,
            found["rowsPerBatch"],
            found["numPartitions"] or os.cpu_count() or 1,
            found["checkpointLocation"],
        )


def _arrivals(rate: float | None, bursts: int | None, seed: int) -> Arrivals:
    if bursts is None:
        return ConstantRate(rate or _EVENT_RATE)
    try:
        return Bursty.at_rate(rate or _EVENT_RATE, streams=bursts, seed=seed)
    except WorkloadError as error:
        raise OptionError(f"bursts={bursts} with rowsPerSecond={rate} cannot be: {error}") from None


def _whole(least: int, wanted: str) -> Callable[[str, str], int]:
    def parse(name: str, text: str) -> int:
        try:
            value = int(text.replace("_", ""))
        except ValueError:
            raise OptionError.out_of_range(name, text, wanted) from None
        if not least <= value < 2**63:
            raise OptionError.out_of_range(name, text, wanted)
        return value

    return parse


def _number(low: float, high: float, wanted: str) -> Callable[[str, str], float]:
    def parse(name: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise OptionError.out_of_range(name, text, wanted) from None
        if not low <= value <= high:
            raise OptionError.out_of_range(name, text, wanted)
        return value

    return parse


def _one_of(*names: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        value = text.strip().lower()
        if value not in names:
            raise OptionError.out_of_range(name, text, " or ".join(map(repr, names)))
        return value

    return parse


def _rows_per_batch(name: str, text: str) -> int | None:
    if text.strip().lower() == "all":
        return None
    return _whole(1, "a whole number from 1 on, or 'all'")(name, text)


def _bursts(name: str, text: str) -> int | None:
    value = text.strip().lower()
    if value in ("true", "false"):
        return _VIRTUAL_STREAMS if value == "true" else None
    wanted = "'true', 'false', or the number of time scales on which rows come in bursts, 1 to 30"
    count = _whole(1, wanted)(name, text)
    if count > 30:
        raise OptionError.out_of_range(name, text, wanted)
    return count


def _drift(name: str, text: str) -> Drift | None:
    kind, _, rest = text.strip().lower().partition(":")
    try:
        if kind == "none" and not rest:
            return None
        if kind == "gradual":
            return GradualDrift(*map(int, rest.split(":", 1)))
        if kind == "abrupt":
            return AbruptDrift(tuple(map(int, rest.split(","))))
    except (ValueError, TypeError):
        pass
    raise OptionError.out_of_range(name, text, _DRIFTS)


def _moment(name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        wanted = "a date or time such as 2025-01-01 or 2025-01-01T06:30:00 (UTC)"
        raise OptionError.out_of_range(name, text, wanted) from None
    return moment.astimezone(timezone.utc).replace(tzinfo=None) if moment.tzinfo else moment


def _text(name: str, text: str) -> str:
    if not text.strip():
        raise OptionError.out_of_range(name, text, "the path of the query's checkpoint")
    return text.strip()


_PARSERS: dict[str, tuple[Callable[[str, str], Any], Any]] = {
    "rows": (_whole(1, "a whole number from 1 on"), None),
    "rowsPerSecond": (_number(1e-6, 1e9, "a number above 0, 1000000000 at most"), None),
    "rowsPerBatch": (_rows_per_batch, 100_000),
    "numPartitions": (_whole(1, "a whole number from 1 on"), None),
    "products": (_whole(1, "a whole number from 1 on"), 100_000),
    "skew": (_number(0, 2, "a number from 0 to 2"), 1.0),
    "order": (_one_of("unsorted", "by-frequency"), "unsorted"),
    "missing": (_number(0, 1, "a share from 0 to 1"), 0.0),
    "drift": (_drift, None),
    "bursts": (_bursts, None),
    "seed": (_whole(-(2**63), "a whole number"), 7),
    "zipf": (_one_of("exact", "integral"), "exact"),
    "startsAt": (_moment, datetime(2025, 1, 1)),
    "checkpointLocation": (_text, None),
}
"""Each option by name: what reads it, and what it is if not given."""
_DECIDING = (
    "products",
    "skew",
    "order",
    "missing",
    "drift",
    "rowsPerSecond",
    "bursts",
    "seed",
    "zipf",
    "startsAt",
)


def _as_kept(value: object) -> str:
    """An option in words that stay the same from run to run."""
    return "none" if value is None else str(value)
