"""TPC-H: orders as the stream, customers as the master, made by the `tpchgen-cli` program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import PenstockError
from penstock.streams.base import (
    Recipe,
    Workload,
    WorkloadError,
    check_order,
    check_range,
    timestamps,
)

_PROGRAM = "tpchgen-cli"
_SORTED_AT_ONCE = 4_000_000  # orders in memory while they are put in order of date
_GROUP_ROWS = 65_536
_DAY_US = 86_400_000_000
_IDLE = 3
"""Customers whose number it divides never order: so TPC-H has it."""


class GeneratorError(PenstockError, RuntimeError):
    """The TPC-H generator is missing or failed."""


@dataclass(frozen=True)
class TpchOrders(Recipe, Workload):
    """TPC-H's Orders, in order of date, joined with its Customer on the customer's number.

    At scale factor 1 there are 150 000 customers and 1 500 000 orders, and both grow with it. (The
    queue-of-frequent-pages paper gives 20 million of each at scale factor 100, where TPC-H has 15
    and 150 million; these are TPC-H's.) Every order has its customer, a third of the customers
    have no order, and the others are equally likely.

    `ordered_at`, the event time, spreads the orders of a day evenly over `o_orderdate`. All other
    columns are TPC-H's. The files are made in `cache` when first needed and found there later.
    Putting orders in order of date holds 4 million at a time and reads the file once for each.

    Parameters
    ----------
    cache
        Folder for the Parquet files, one subfolder for each scale factor.
    scale
        TPC-H scale factor, 0.001 or more.
    order
        `"as-they-are"`, or `"by-frequency"`: customers are numbered anew, those who order first,
        so that R in key order is in order of access frequency.
    """

    cache: str | os.PathLike[str]
    scale: float = 1.0
    order: Literal["as-they-are", "by-frequency"] = "as-they-are"

    def __post_init__(self) -> None:
        if not 0.001 <= self.scale < float("inf"):
            raise WorkloadError(f"TPC-H scale factors start at 0.001; scale is {self.scale}.")
        check_order(self.order)

    @property
    def key(self) -> str:
        return "o_custkey"

    @property
    def master_key(self) -> str:
        return "c_custkey"

    @property
    def event_time(self) -> str:
        return "ordered_at"

    @property
    def schema(self) -> pa.Schema:
        return self._orders.schema

    @property
    def master_schema(self) -> pa.Schema:
        return self._customers.schema

    @property
    def num_rows(self) -> int:
        return self._orders.num_rows

    @property
    def num_master_rows(self) -> int:
        return self._customers.num_rows

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Orders start … stop - 1, in order of date and number."""
        check_range(start, stop, self.num_rows, f"the orders of scale factor {self.scale:g}")
        rows = self._orders.rows(start, stop)
        if self.order == "as-they-are":
            return rows
        at = rows.schema.get_field_index(self.key)
        numbers = rows.column(at).to_numpy()
        return rows.set_column(at, rows.schema.field(at), pa.array(numbers - numbers // _IDLE))

    def master_rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Customers start … stop - 1, in order of number."""
        total = self.num_master_rows
        check_range(start, stop, total, f"the customers of scale factor {self.scale:g}")
        if self.order == "as-they-are":
            return self._customers.rows(start, stop)
        buyers = total - total // _IDLE
        rows = pa.concat_batches(
            [
                self._one_kind(min(start, buyers), min(stop, buyers), buying=True),
                self._one_kind(max(start - buyers, 0), max(stop - buyers, 0), buying=False),
            ]
        )
        numbers = pa.array(np.arange(start + 1, stop + 1))
        return rows.set_column(0, rows.schema.field(self.master_key), numbers)

    def _one_kind(self, start: int, stop: int, *, buying: bool) -> pa.RecordBatch:
        """Rows start … stop - 1 of the customers who order, or of those who never do."""
        if start == stop:
            return self._customers.rows(0, 0)
        if buying:
            first, last = start + start // 2, stop + (stop - 1) // 2
        else:
            first, last = _IDLE * start + 2, _IDLE * stop
        is_buying = np.arange(first + 1, last + 1) % _IDLE != 0
        return self._customers.rows(first, last).filter(pa.array(is_buying == buying))

    def generate(self) -> Path:
        """Make the files unless they are there; the folder that has them."""
        folder = Path(self.cache) / f"tpch-sf{self.scale:g}"
        if folder.is_dir():
            return folder
        program = _generator()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as made:
            raw, ready = Path(made, "raw"), Path(made, "ready")
            _run(program, self.scale, raw)
            ready.mkdir()
            _copy_customers(raw / "customer.parquet", ready / "customer.parquet")
            _copy_orders_by_date(raw / "orders.parquet", ready / "orders.parquet")
            _publish(ready, folder)
        return folder

    @cached_property
    def _orders(self) -> _ParquetRows:
        return _ParquetRows(self.generate() / "orders.parquet")

    @cached_property
    def _customers(self) -> _ParquetRows:
        return _ParquetRows(self.generate() / "customer.parquet")


class _ParquetRows:
    """Rows of a Parquet file by number; holds the row groups of the last call."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path)
        metadata = self._file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._ends = np.cumsum(sizes)
        self._held: tuple[range, pa.Table] | None = None
        self.schema: pa.Schema = self._file.schema_arrow
        self.num_rows: int = metadata.num_rows

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        if start == stop:
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        first, last = np.searchsorted(self._ends, (start, stop - 1), side="right")
        groups = range(int(first), int(last) + 1)
        if self._held is None or self._held[0] != groups:
            self._held = groups, self._file.read_row_groups(list(groups))
        before = int(self._ends[first - 1]) if first else 0
        part = self._held[1].slice(start - before, stop - start)
        return part.combine_chunks().to_batches()[0]


def _generator() -> str:
    """The program beside this interpreter, or else on the PATH."""
    found = shutil.which(_PROGRAM, path=str(Path(sys.executable).parent)) or shutil.which(_PROGRAM)
    if found is None:
        raise GeneratorError(
            f"TPC-H data is made by the program {_PROGRAM}, which is neither beside "
            f"{sys.executable} nor on the PATH. Install it: pip install 'penstock[tpch]'."
        )
    return found


def _run(program: str, scale: float, folder: Path) -> None:
    command = [program, "parquet", "--tables=customer,orders"]
    command += [f"--scale-factor={scale:g}", f"--output-dir={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GeneratorError(
            f"{' '.join(command)} ended with code {done.returncode}: {done.stderr.strip()[-500:]} "
            f"Version 3 or later is needed: pip install --upgrade 'penstock[tpch]'."
        )


def _plain(schema: pa.Schema) -> pa.Schema:
    """The generator's schema with `string` for `string_view` and without its file's metadata."""
    return pa.schema(
        (field.name, pa.string() if field.type == pa.string_view() else field.type)
        for field in schema
    )


def _copy_customers(source: Path, target: Path) -> None:
    with pq.ParquetFile(source) as raw, pq.ParquetWriter(target, _plain(raw.schema_arrow)) as out:
        for batch in raw.iter_batches(batch_size=_GROUP_ROWS):
            out.write_batch(batch.cast(_plain(raw.schema_arrow)))


def _copy_orders_by_date(source: Path, target: Path) -> None:
    """Order by date, a range of days at a time, so that memory does not grow with the file."""
    with pq.ParquetFile(source) as raw:
        plain = _plain(raw.schema_arrow)
        days = raw.read(columns=["o_orderdate"])["o_orderdate"].cast(pa.int32()).to_numpy()
    schema = plain.append(pa.field("ordered_at", pa.timestamp("us")))
    with pq.ParquetWriter(target, schema) as out:
        for first, last in _day_ranges(days):
            part = _orders_between(source, plain, first, last)
            part = part.sort_by([("o_orderdate", "ascending"), ("o_orderkey", "ascending")])
            moments = _spread_over_day(part["o_orderdate"].cast(pa.int32()).to_numpy())
            part = part.append_column("ordered_at", timestamps(moments))
            out.write_table(part, row_group_size=_GROUP_ROWS)


def _orders_between(source: Path, schema: pa.Schema, first: int, last: int) -> pa.Table:
    """Orders of the days first … last. The cast comes first: string views cannot be filtered."""
    parts = []
    with pq.ParquetFile(source) as raw:
        for batch in raw.iter_batches(batch_size=_GROUP_ROWS):
            days = batch["o_orderdate"].cast(pa.int32()).to_numpy()
            wanted = (days >= first) & (days <= last)
            if wanted.any():
                parts.append(batch.cast(schema).filter(pa.array(wanted)))
    return pa.Table.from_batches(parts, schema)


def _day_ranges(days: npt.NDArray[np.int32]) -> list[tuple[int, int]]:
    """First and last days of ranges with some `_SORTED_AT_ONCE` orders, or a single day."""
    present, counts = np.unique(days, return_counts=True)
    group = np.cumsum(counts) // _SORTED_AT_ONCE
    firsts = np.flatnonzero(np.diff(group, prepend=-1))
    lasts = np.append(firsts[1:], len(present)) - 1
    return [(int(present[a]), int(present[b])) for a, b in zip(firsts, lasts, strict=True)]


def _spread_over_day(days: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Microseconds since 1970 for orders sorted by day, evenly spaced within each day."""
    first, count = np.unique(days, return_index=True, return_counts=True)[1:]
    number = np.arange(len(days)) - np.repeat(first, count)
    return days.astype(np.int64) * _DAY_US + number * _DAY_US // np.repeat(count, count)


def _publish(made: Path, folder: Path) -> None:
    """Give the finished files their name at once; whoever was first wins."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
