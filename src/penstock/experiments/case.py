"""What one point of a figure runs: a join, a stream, a master, a budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from penstock.errors import PenstockError
from penstock.joins.names import NAMES, named
from penstock.joins.plan import JoinPlan
from penstock.streams import AbruptDrift, SalesStream, TpchOrders, WeatherReports, Workload

WORKLOADS = ("sales", "tpch", "weather")
_CHANGES = 64
_MOST_EXACT = 50_000_000
"""Products up to which ranks are drawn from a table, of 8 bytes each and more while it is made."""


class ExperimentError(PenstockError, ValueError):
    """A figure's file, an id or a scale that cannot be run as written."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One point, at the size at which it is really run.

    Attributes:
        join: a name of `penstock.joins.names`, or of a rival.
        options: of the join's plan, as sorted pairs.
        workload: "sales" (the papers' common data), "tpch" or "weather".
        rows: of R; TPC-H's customers.
        skew, missing: of the sales.
        order: of R, "unsorted" (by key, where keys say something) or "by-frequency".
        drift_every: stream rows after which another part of R is the hot one; None: never.
        budget: bytes.
        page_bytes: of the page file.
        read_bytes: neighbouring pages that are read as one; None: each page by itself.
        max_wait: admitted rows that a row waits at most.
        batch_rows: stream rows pushed at a time.
        seed: every choice of the stream.
        predict: whether our own model is asked, too.
        windows: (before, during) the count, of rows that waited; None: what the join needs.
    """

    join: str
    options: tuple[tuple[str, Any], ...] = ()
    workload: str = "sales"
    rows: int = 2_000_000
    skew: float = 1.0
    order: str = "by-frequency"
    missing: float = 0.0
    drift_every: int | None = None
    budget: int = 50_000_000
    page_bytes: int = 65_536
    read_bytes: int | None = None
    max_wait: int | None = None
    batch_rows: int = 16_384
    seed: int = 7
    predict: bool = False
    windows: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.workload not in WORKLOADS:
            raise ExperimentError(
                f"no workload is named {self.workload!r}; they are {', '.join(WORKLOADS)}."
            )

    @property
    def is_rival(self) -> bool:
        """Whether this is what people use instead of a semi-stream join."""
        return self.join not in NAMES

    def plan(self) -> JoinPlan:
        options = dict(self.options)
        if self.read_bytes is not None:
            options["read_bytes"] = self.read_bytes
        return named(
            self.join, budget=self.budget, max_wait=self.max_wait, seed=self.seed, **options
        )

    def stream(self, cache: Path) -> Workload:
        """The stream and its master; files that a generator makes are kept in `cache`."""
        if self.workload == "tpch":
            return TpchOrders(cache, scale=self.rows / 150_000, order=self._order)
        if self.workload == "weather":
            return WeatherReports(reports=self.rows, seed=self.seed, order=self._order)
        drift = None
        if self.drift_every is not None:
            changes = (self.drift_every * (n + 1) for n in range(_CHANGES))
            drift = AbruptDrift(at=tuple(changes))
        return SalesStream(
            products=self.rows,
            skew=self.skew,
            order=self.order,  # type: ignore[arg-type]
            missing=self.missing,
            drift=drift,
            seed=self.seed,
            zipf="exact" if self.rows <= _MOST_EXACT else "integral",
        )

    @property
    def _order(self) -> Literal["as-they-are", "by-frequency"]:
        """Of data with an order of its own."""
        return "by-frequency" if self.order == "by-frequency" else "as-they-are"

    @property
    def master_name(self) -> str:
        """Cases of the same name read the same page file."""
        # Sales are drawn in the order that is asked for; R is the same.
        order = "" if self.workload == "sales" else f"-{self._order}"
        return f"{self.workload}-{self.rows}{order}-{self.page_bytes}-{self.seed}"

    @property
    def key(self) -> str:
        """Cases with the same key are the same point, whichever figure asks for it."""
        said = json.dumps({"what": "case", **asdict(self)}, sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:20]

    def with_options(self, **options: Any) -> Case:
        """The same with further options of the plan."""
        return replace(self, options=tuple(sorted({**dict(self.options), **options}.items())))

    def __str__(self) -> str:
        plain = [(n, v) for n, v in self.options if isinstance(v, int | float | str)]
        options = "".join(f" {name}={value}" for name, value in plain)
        return (
            f"{self.join}{options}, {self.rows:,} rows, {self.budget / 1e6:g} MB, "
            f"skew {self.skew:g}, {self.order}"
        )
