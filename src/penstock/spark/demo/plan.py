"""How large a demo is, and what its rows are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from penstock.budget import format_bytes, parse_bytes
from penstock.errors import OptionError, PenstockError
from penstock.streams import Bursty, SalesStream

PAGE_BYTES = 8 * 1024
"""Small pages: a micro-batch misses few rows of each, so that little is read for nothing."""
ADDED = ("product_key", "vendor_id", "price")
"""The products' columns that sales get."""
COLUMNS = (
    "sale_id",
    "sold_at",
    "product_id",
    "product_key",
    "vendor_id",
    "quantity",
    "price",
    "total_amount",
)
"""The warehouse table's."""
_MASTER_ROW_BYTES = 134
_SALE_BYTES = 40
_SPARK_BYTES = 300_000_000


class DemoError(PenstockError, RuntimeError):
    """A demo that cannot begin, go on or end well."""


@dataclass(frozen=True)
class DemoPlan:
    """One demo. Two demos with equal plans are the same, row by row.

    Attributes:
        products: rows of R.
        sales: rows of the stream.
        rate: sales per second on average; they come in bursts.
        budget: bytes of all workers together.
        workers: tasks at once, each with its share of the budget.
        skew: Zipf exponent of the sales.
        missing: share of sales whose product R lacks.
        seed: of all rows.
        max_wait: as for `enrich`.
    """

    products: int = 1_000_000
    sales: int = 4_000_000
    rate: float = 100_000.0
    budget: int = 50_000_000
    workers: int = 2
    skew: float = 1.0
    missing: float = 0.01
    seed: int = 7
    max_wait: str | None = None

    def __post_init__(self) -> None:
        for name in ("products", "sales", "workers"):
            if getattr(self, name) < 1:
                raise OptionError.out_of_range(name, getattr(self, name), "1 or more")
        if not 0 < self.rate <= 1e8:
            raise OptionError.out_of_range("rate", self.rate, "a number above 0, 1e8 at most")

    @property
    def worker_budget(self) -> int:
        return self.budget // self.workers

    @property
    def rows_per_batch(self) -> int:
        """The most that a micro-batch takes: two seconds of sales on average."""
        return max(1000, min(400_000, round(2 * self.rate)))

    @property
    def workload(self) -> SalesStream:
        return SalesStream(
            self.products,
            skew=self.skew,
            missing=self.missing,
            seed=self.seed,
            arrivals=Bursty.at_rate(self.rate, seed=self.seed),
        )

    @property
    def source_options(self) -> dict[str, str]:
        """The same workload, as options of `penstock_sales`."""
        return {
            "products": str(self.products),
            "skew": str(self.skew),
            "missing": str(self.missing),
            "seed": str(self.seed),
            "bursts": "true",
            "rowsPerSecond": str(self.rate),
            "rowsPerBatch": str(self.rows_per_batch),
            "rows": str(self.sales),
            "numPartitions": str(self.workers),
        }

    @property
    def master_version(self) -> str:
        """The name of the version of R that this plan needs."""
        return f"demo-{self.products}-{self.seed}-{PAGE_BYTES}"

    @property
    def disk_bytes(self) -> int:
        """About what a demo needs on disk in all."""
        rows = self.products * _MASTER_ROW_BYTES * 2 + self.sales * _SALE_BYTES
        return rows + _SPARK_BYTES

    def difference(self, other: DemoPlan) -> list[tuple[str, Any, Any]]:
        """What the other has otherwise: name, ours, theirs."""
        theirs = asdict(other)
        return [(name, v, theirs[name]) for name, v in asdict(self).items() if v != theirs[name]]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> DemoPlan:
        return cls(**json.loads(text))


def parse_budget(text: str, workers: int) -> int:
    """The budget of all workers, large enough that each has a share that a join can use."""
    budget = parse_bytes(text)
    least = 2_000_000 * workers
    if budget < least:
        raise OptionError(
            f"budget={text!r} is {format_bytes(budget)} for {workers} workers; give "
            f"{format_bytes(least)} or more."
        )
    return budget
