"""Sales and products, the papers' common data: 20-byte stream rows and 120-byte master rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.streams.arrivals import Arrivals, ConstantRate
from penstock.streams.attributes import Attribute, columns, fields
from penstock.streams.base import (
    BLOCK_ROWS,
    Recipe,
    Workload,
    WorkloadError,
    check_range,
    spans,
    timestamps,
)
from penstock.streams.drift import Drift
from penstock.streams.permutation import Permutation
from penstock.streams.randomness import below, bits, lane, uniform
from penstock.streams.zipf import Zipf

_FIRST_PRODUCT_KEY = 10_000_000
_MOST_SOLD_AT_ONCE = 20

_SCHEMA = pa.schema(
    [("product_id", pa.int64()), ("quantity", pa.int32()), ("sold_at", pa.timestamp("us"))]
)
_ATTRIBUTES = (
    Attribute("price", pa.float64(), 1, 1_000, per_unit=100),
    Attribute("vendor_id", pa.int64(), 1, 5_001),
    Attribute("category_id", pa.int64(), 1, 401),
    Attribute("brand_id", pa.int64(), 1, 20_001),
    Attribute("warehouse_id", pa.int64(), 1, 61),
    Attribute("pack_size", pa.int64(), 1, 49),
    Attribute("stock", pa.int64(), 0, 100_000),
    Attribute("reorder_level", pa.int64(), 10, 1_000),
    Attribute("lead_days", pa.int64(), 1, 91),
    Attribute("cost", pa.float64(), 1, 700, per_unit=100),
    Attribute("tax_rate", pa.float64(), 0, 1, per_unit=4),
    Attribute("weight_kg", pa.float64(), 0, 40, per_unit=1_000),
    Attribute("volume_l", pa.float64(), 0, 200, per_unit=100),
)
_MASTER_SCHEMA = pa.schema(
    [("product_id", pa.int64()), ("product_key", pa.int64()), *fields(_ATTRIBUTES)]
)


@dataclass(frozen=True)
class SalesStream(Recipe, Workload):
    """Sales of products whose popularity follows Zipf's law, and the table of those products.

    Product i (from 0, in key order) has the odd `product_id` 2·i + 1; even ids are of products
    that R lacks, one beside each that it has. A sale draws a rank, and the rank has a product:

    - `"unsorted"`: by a pseudo-random permutation in constant memory, so that hot products lie
      anywhere in R; absent products have a permutation of their own.
    - `"by-frequency"`: rank r is product r, so R in key order is in order of access frequency.

    A stream row costs some 25 to 75 ns. Memory: 8 bytes a product with `zipf="exact"`, none with
    `"integral"`.

    Parameters
    ----------
    products
        Rows of R.
    skew
        Zipf exponent, 0 … 2.
    order
        Where hot products lie in R.
    missing
        Share of sales whose product is not in R. They are as skewed and as spread as the others.
    drift
        How popularity moves; None: it stays.
    arrivals
        Event times: `ConstantRate` or `Bursty`.
    seed
        Every other choice.
    zipf
        How ranks are drawn: see `Zipf`.
    starts_at
        Event time zero (UTC, without time zone).

    >>> stream = SalesStream(products=1000)
    >>> stream.rows(5, 9) == pa.concat_batches([stream.rows(5, 6), stream.rows(6, 9)])
    True
    """

    products: int
    skew: float = 1.0
    order: Literal["unsorted", "by-frequency"] = "unsorted"
    missing: float = 0.0
    drift: Drift | None = None
    arrivals: Arrivals = field(default_factory=ConstantRate)
    seed: int = 7
    zipf: Literal["exact", "integral"] = "exact"
    starts_at: datetime = datetime(2025, 1, 1)

    def __post_init__(self) -> None:
        if self.products < 1:
            raise WorkloadError(f"R needs at least one product; products is {self.products}.")
        if self.order not in ("unsorted", "by-frequency"):
            raise WorkloadError(f"order is 'unsorted' or 'by-frequency', not {self.order!r}.")
        if not 0 <= self.missing <= 1:
            raise WorkloadError(f"missing is a share, 0 … 1; it is {self.missing}.")
        if self.starts_at.tzinfo is not None:
            raise WorkloadError(
                f"starts_at is UTC without a time zone; it is {self.starts_at.isoformat()}."
            )
        Zipf(self.products, self.skew, self.zipf)

    @property
    def key(self) -> str:
        return "product_id"

    @property
    def master_key(self) -> str:
        return "product_id"

    @property
    def event_time(self) -> str:
        return "sold_at"

    @property
    def schema(self) -> pa.Schema:
        return _SCHEMA

    @property
    def master_schema(self) -> pa.Schema:
        return _MASTER_SCHEMA

    @property
    def num_rows(self) -> None:
        return None

    @property
    def num_master_rows(self) -> int:
        return self.products

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Sales start … stop - 1."""
        check_range(start, stop, self.num_rows, "the sales")
        ids = np.empty(stop - start, dtype=np.int64)
        quantities = np.empty(stop - start, dtype=np.int32)
        moments = np.empty(stop - start, dtype=np.int64)
        for low, high in spans(start, stop, BLOCK_ROWS):
            part = slice(low - start, high - start)
            ids[part] = self._product_ids(low, high)
            sold = below(bits(lane(self.seed, "quantity"), low, high), _MOST_SOLD_AT_ONCE)
            np.add(sold, 1, out=quantities[part], casting="same_kind")
            np.add(self.arrivals.times(low, high), self._origin_us, out=moments[part])
        return pa.record_batch(
            [pa.array(ids), pa.array(quantities), timestamps(moments)], schema=_SCHEMA
        )

    def master_rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Products start … stop - 1, in key order."""
        check_range(start, stop, self.products, "the products")
        return self.products_of(np.arange(start, stop, dtype=np.int64) * 2 + 1)

    def products_of(self, product_ids: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """R's rows for these ids, which must be in R: what a join has to add to their sales."""
        positions = product_ids >> 1
        outside = (product_ids & 1 == 0) | (positions < 0) | (positions >= self.products)
        if outside.any():
            raise WorkloadError(
                f"{int(outside.sum())} of {len(product_ids)} products are not in R, among them "
                f"{int(product_ids[outside][0])}. R has the odd ids 1 … {2 * self.products - 1}."
            )
        surrogate = pa.array(positions + _FIRST_PRODUCT_KEY)
        attributes = columns(_ATTRIBUTES, self.seed, product_ids)
        return pa.record_batch(
            [pa.array(product_ids), surrogate, *attributes], schema=_MASTER_SCHEMA
        )

    def popularity(self, row: int = 0) -> npt.NDArray[np.float64]:
        """Share of sales that each product has at this row of the stream, in key order.

        The shares add up to 1 - missing. 8 bytes a product and 24 more while it is made.
        """
        ranks = np.arange(self.products, dtype=np.int64)
        if self.drift is not None:
            ranks = (ranks + self.drift.turns(row, row + 1, self.products)) % self.products
        shares = np.empty(self.products)
        shares[self._positions(ranks, "present")] = self._zipf.probabilities()
        return shares * (1 - self.missing)

    def absences(self) -> npt.NDArray[np.float64]:
        """Share of sales that each product R lacks has, by its even id; they add up to missing."""
        shares = np.empty(self.products)
        shares[self._positions(np.arange(self.products, dtype=np.int64), "absent")] = (
            self._zipf.probabilities()
        )
        return shares * self.missing

    @cached_property
    def _zipf(self) -> Zipf:
        return Zipf(self.products, self.skew, self.zipf)

    @cached_property
    def _origin_us(self) -> int:
        return int(np.datetime64(self.starts_at, "us").astype(np.int64))

    def _product_ids(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        ranks = self._zipf.ranks(bits(lane(self.seed, "rank"), start, stop))
        if self.drift is not None:
            ranks += self.drift.turns(start, stop, self.products)
            ranks %= self.products
        ids = self._positions(ranks, "present") * 2 + 1
        if self.missing:
            chance = uniform(bits(lane(self.seed, "missing"), start, stop))
            absent = np.flatnonzero(chance < self.missing)
            ids[absent] = self._positions(ranks[absent], "absent") * 2
        return ids

    def _positions(
        self, ranks: npt.NDArray[np.int64], which: Literal["present", "absent"]
    ) -> npt.NDArray[np.int64]:
        if self.order == "by-frequency":
            return ranks
        return Permutation(self.products, self.seed, which)(ranks)
