"""What is measured: one master, the same micro-batches for every way of joining."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from penstock.budget import format_bytes, parse_bytes
from penstock.errors import OptionError, PenstockError
from penstock.joins.waits import WaitLimit
from penstock.masters.databases.address import TableAddress
from penstock.streams import SalesStream

OURS = ("at-once", "waiting")
"""The two ways of `enrich`."""
AGAINST = ("identity", "static", "static-cached")
"""What they are measured beside, if nothing else is said."""
KNOWN = (*AGAINST, "static-inner", "handwritten")
"""What they can be measured beside."""
_SCANS = (3, 20)
"""Micro-batches to warm up and to measure, at most, for a way that scans R in each of them."""
_ROW_BYTES = 120
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s)\s*")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class SparkBenchError(PenstockError, RuntimeError):
    """A case that cannot be measured, or a measurement that broke off."""


class SparkCaseError(SparkBenchError, OptionError):
    """An option of a case that cannot be."""


def parse_delay(text: str) -> float:
    """A delay in seconds.

    >>> parse_delay("2ms"), parse_delay("0.5 s"), parse_delay("0ms")
    (0.002, 0.5, 0.0)
    """
    found = _DURATION.fullmatch(text.lower())
    if found is None:
        raise SparkCaseError(f"{text!r} is no delay; write 2ms, 500us or 0.1s.")
    return float(found[1]) * _SECONDS[found[2]]


@dataclass(frozen=True, kw_only=True)
class SparkCase:
    """Sales joined with products on Spark: every row is a function of these fields.

    R has `rows` rows of 120 bytes. After `warm_up` micro-batches of `batch` rows, `batches` more
    are measured. Each micro-batch comes in `partitions` files, so that so many tasks have a part of
    it. `columns` are the ones that each way adds. `master` is a server that R is put into, in the
    place of a page file. `missing` is the share of stream rows without a partner. `read_delay` is
    what each request to the page file costs, in seconds, and `in_flight` how many of a worker may
    be under way at once.
    `settings` are further ones of Spark.

    >>> SparkCase(rows=1000, batch=500).master_version
    'sales-1000-8192-7'
    """

    rows: int = 2_000_000
    batch: int = 20_000
    batches: int = 20
    warm_up: int = 5
    budget: int | str = "50MB"
    columns: tuple[str, ...] = ("product_key", "price", "vendor_id")
    skew: float = 1.0
    missing: float = 0.0
    max_wait: str = "30s"
    read_delay: float = 0.0
    in_flight: int = 1
    page_bytes: int = 8_192
    partitions: int = 2
    cores: int = 2
    shards: int | None = None
    seed: int = 7
    settings: dict[str, str] = field(default_factory=dict)
    master: str | None = None
    """A server whose table R is, in the place of the page file."""

    def __post_init__(self) -> None:
        for name in ("rows", "batch", "batches", "partitions", "cores", "in_flight"):
            if getattr(self, name) < 1:
                raise SparkCaseError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.warm_up < 0 or self.read_delay < 0:
            raise SparkCaseError(
                f"warm_up is {self.warm_up} and read_delay {self.read_delay}; neither can be less "
                "than 0."
            )
        parse_bytes(self.budget)
        WaitLimit.parse(self.max_wait)
        known = self.workload().master_schema.names
        for name in self.columns:
            if name not in known[1:]:
                raise SparkCaseError(
                    f"R has no column {name!r} to add; it has: {', '.join(known[1:])}."
                )
        if not self.columns:
            raise SparkCaseError(f"no column to add; R has: {', '.join(known[1:])}.")

    @property
    def budget_bytes(self) -> int:
        return parse_bytes(self.budget)

    @property
    def master_bytes(self) -> int:
        return self.rows * _ROW_BYTES

    @property
    def master_version(self) -> str:
        """The name of R's version: files of the same name hold the same rows in the same pages."""
        return f"sales-{self.rows}-{self.page_bytes}-{self.seed}"

    def of_way(self, way: str) -> SparkCase:
        """The case as this way is measured: one that scans R has nothing that warms up for long."""
        if not way.startswith("static"):
            return self
        warm_up, batches = min(self.warm_up, _SCANS[0]), min(self.batches, _SCANS[1])
        return replace(self, warm_up=warm_up, batches=batches)

    def workload(self) -> SalesStream:
        return SalesStream(products=self.rows, skew=self.skew, missing=self.missing, seed=self.seed)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SparkCase:
        return cls(**{**values, "columns": tuple(values["columns"])})

    @property
    def _where(self) -> str:
        return "" if self.master is None else f" in {TableAddress.parse(self.master)}"

    def __str__(self) -> str:
        slow = f", {self.read_delay * 1000:g} ms for each read" if self.read_delay else ""
        asked = f", {self.missing:.0%} of keys missing" if self.missing else ""
        return (
            f"R {self.rows:,} rows × {_ROW_BYTES} B{self._where}, {self.batches} micro-batches of "
            f"{self.batch:,} rows in {self.partitions} partitions after {self.warm_up} to warm up, "
            f"Zipf {self.skew:g}{asked}, budget {format_bytes(self.budget_bytes)}, pages of "
            f"{self.page_bytes:,} B{slow}, {self.cores} cores, seed {self.seed}"
        )
