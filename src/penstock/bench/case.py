"""What is measured: one master, one stream, one budget."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from penstock.budget import Size, format_bytes, parse_bytes
from penstock.errors import PenstockError, counted
from penstock.joins.waits import WaitLimit
from penstock.streams import SalesStream

Order = Literal["unsorted", "by-frequency"]
_CHUNK_ROWS = 1 << 20


class BenchError(PenstockError, RuntimeError):
    """A case that cannot be measured, or a measurement that broke off."""


@dataclass(frozen=True, kw_only=True)
class JoinCase:
    """Sales joined with products: every row of both is a function of these fields.

    R has `rows` rows of 120 bytes and the stream `stream` rows of 20 bytes, pushed `batch_rows` at
    a time. `missing` is the share of stream rows without a partner. `direct` asks for reads past
    the kernel's cache. A join that has had `limit` seconds gets no further batch.

    >>> JoinCase(rows=1000, stream=5000, budget="1MB").budget_bytes
    1000000
    """

    rows: int
    stream: int
    budget: Size = "50MB"
    skew: float = 1.0
    order: Order = "unsorted"
    missing: float = 0.0
    page_bytes: int = 65_536
    seed: int = 7
    direct: bool = True
    max_wait: int | str | None = None
    batch_rows: int = 16_384
    limit: float | None = None

    def __post_init__(self) -> None:
        for name in ("rows", "stream", "batch_rows"):
            if getattr(self, name) < 1:
                raise BenchError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.limit is not None and self.limit <= 0:
            raise BenchError(f"limit is {self.limit} seconds; it must be above 0.")
        parse_bytes(self.budget)
        WaitLimit.parse(self.max_wait)
        self.workload()

    @property
    def budget_bytes(self) -> int:
        return parse_bytes(self.budget)

    @property
    def chunk_rows(self) -> int:
        """Stream rows that are made at a time: whole batches, about a million rows."""
        return max(_CHUNK_ROWS // self.batch_rows, 1) * self.batch_rows

    @property
    def master_version(self) -> str:
        """The name of R's version: files of the same name hold the same rows in the same pages."""
        return f"sales-{self.rows}-{self.page_bytes}-{self.seed}"

    def workload(self) -> SalesStream:
        return SalesStream(
            products=self.rows,
            skew=self.skew,
            order=self.order,
            missing=self.missing,
            seed=self.seed,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        asked = f", {self.missing:.0%} of keys missing" if self.missing else ""
        wait = f", max wait {self.max_wait}" if self.max_wait is not None else ""
        return (
            f"R {counted(self.rows, 'row')} × 120 B, stream {counted(self.stream, 'row')} × 20 B, "
            f"Zipf {self.skew:g}, {self.order}{asked}, budget {format_bytes(self.budget_bytes)}, "
            f"pages of {self.page_bytes:,} B{wait}, seed {self.seed}"
        )
