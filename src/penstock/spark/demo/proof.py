"""The warehouse table against a plain join: every row, every column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.demo.plan import ADDED, COLUMNS, DemoError, DemoPlan

_GROUP_ROWS = 1_000_000


@dataclass(frozen=True)
class Proof:
    """What was compared."""

    rows: int
    unmatched: int
    table_bytes: int
    """Of the plain join's R: its key and the columns that were asked for, as an Arrow table."""


def prove(
    files: Iterable[Path], plan: DemoPlan, reached: Callable[[int], object] = lambda rows: None
) -> Proof:
    """Raise DemoError unless the files hold exactly the plain join of all sales with all products.

    The sales and the products are made anew from the seed and joined by Arrow with all of R in
    memory, a million sales at a time; rows are told apart by `sale_id`.
    """
    workload = plan.workload
    products = workload.master_table().select(["product_id", *ADDED])
    done = unmatched = 0
    for group in _groups(files):
        found = pq.ParquetDataset([str(f) for f in group]).read(columns=list(COLUMNS))
        found = found.sort_by("sale_id")
        stop = done + found.num_rows
        _require_each_once(found["sale_id"].to_numpy(), done)
        if stop > plan.sales:
            raise DemoError(f"not equal: the warehouse has rows beyond sale {plan.sales - 1}.")
        expected = _plain_join(workload.rows(done, stop), done, products)
        for name in COLUMNS:
            ours = found[name].cast(expected.schema.field(name).type).combine_chunks()
            if not ours.equals(expected[name].combine_chunks()):
                raise DemoError(_first_difference(name, ours, expected[name], done))
        unmatched += expected["product_key"].null_count
        done = stop
        reached(done)
    if done != plan.sales:
        raise DemoError(f"not equal: the warehouse has {done} sales of {plan.sales}.")
    return Proof(done, unmatched, products.nbytes)


def _plain_join(sales: pa.RecordBatch, first: int, products: pa.Table) -> pa.Table:
    ids = pa.array(np.arange(first, first + sales.num_rows, dtype=np.int64))
    left = pa.Table.from_batches([sales]).add_column(0, "sale_id", ids)
    joined = left.join(products, "product_id", join_type="left outer").sort_by("sale_id")
    total = pc.multiply(joined["price"], pc.cast(joined["quantity"], pa.float64()))
    return joined.append_column("total_amount", total).select(list(COLUMNS))


def _groups(files: Iterable[Path]) -> Iterator[list[Path]]:
    """Files in groups of about a million rows, no sale of one group between those of another."""
    spans = sorted((*_span(file), file) for file in files if pq.read_metadata(file).num_rows)
    group: list[Path] = []
    rows, highest = 0, -1
    for low, high, count, file in spans:
        if rows >= _GROUP_ROWS and low > highest:
            yield group
            group, rows = [], 0
        group.append(file)
        rows += count
        highest = max(highest, high)
    if group:
        yield group


def _span(file: Path) -> tuple[int, int, int]:
    """The lowest and highest sale of a file, and how many it has."""
    about = pq.read_metadata(file)
    column = about.schema.names.index("sale_id")
    parts = [about.row_group(i).column(column).statistics for i in range(about.num_row_groups)]
    return min(p.min for p in parts), max(p.max for p in parts), about.num_rows


def _require_each_once(ids: np.ndarray[tuple[int], np.dtype[np.int64]], first: int) -> None:
    wanted = np.arange(first, first + len(ids))
    wrong = np.flatnonzero(ids != wanted)
    if len(wrong):
        at = int(wrong[0])
        what = "is missing" if ids[at] > wanted[at] else "is there twice"
        sale = int(min(ids[at], wanted[at]))
        raise DemoError(f"not equal: sale {sale} {what}.")


def _first_difference(name: str, ours: pa.Array, theirs: pa.ChunkedArray, first: int) -> str:
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a != b and (a.is_valid or b.is_valid):
            return (
                f"not equal: sale {first + i} has {name} {a.as_py()} in the warehouse and "
                f"{b.as_py()} in the plain join."
            )
    return f"not equal: the columns {name} differ."
