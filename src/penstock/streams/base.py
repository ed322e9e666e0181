"""What a workload is: a stream and its master, made from a seed, addressed by row number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import PenstockError

BLOCK_ROWS = 65_536  # rows made at a time: temporaries of 512 KiB stay in the processor's cache


class WorkloadError(PenstockError, ValueError):
    """A workload that cannot be made as asked, or rows that it does not have."""


class Recipe:
    """A frozen dataclass that pickles as its fields; tables computed from them are made anew."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class Workload(Protocol):
    """A stream to enrich and the master that enriches it.

    Row n of either side depends on the workload's fields and on n alone, so `rows(a, c)` is
    `rows(a, b)` followed by `rows(b, c)` for every b: a replay gives the same rows. The stream
    is in the order of its event times, the master in the order of its key.
    """

    @property
    def key(self) -> str:
        """The stream's join column."""
        ...

    @property
    def master_key(self) -> str:
        """The master's join column."""
        ...

    @property
    def event_time(self) -> str:
        """The stream's event-time column (timestamp[us], UTC)."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Columns of a stream row."""
        ...

    @property
    def master_schema(self) -> pa.Schema:
        """Columns of a master row."""
        ...

    @property
    def num_rows(self) -> int | None:
        """Rows of the stream; None when it never ends."""
        ...

    @property
    def num_master_rows(self) -> int:
        """Rows of the master."""
        ...

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Stream rows start … stop - 1."""
        ...

    def master_rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Master rows start … stop - 1, in key order."""
        ...

    def batches(self, total: int, batch_rows: int, start: int = 0) -> Iterator[pa.RecordBatch]:
        """`total` stream rows from row `start` on, `batch_rows` at a time."""
        check_range(start, start + total, self.num_rows, "the stream")
        return (self.rows(*span) for span in spans(start, start + total, batch_rows))

    def master_batches(self, batch_rows: int) -> pa.RecordBatchReader:
        """The whole master in key order, `batch_rows` at a time, never all in memory."""
        parts = spans(0, self.num_master_rows, batch_rows)
        return pa.RecordBatchReader.from_batches(
            self.master_schema, (self.master_rows(*span) for span in parts)
        )

    def master_table(self) -> pa.Table:
        """The whole master in memory."""
        return self.master_batches(BLOCK_ROWS).read_all()


def spans(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """start … stop cut into ranges of `size` rows, the last one shorter."""
    if size < 1:
        raise WorkloadError(f"A batch has at least one row; {size} were asked for.")
    return ((low, min(low + size, stop)) for low in range(start, stop, size))


def check_range(start: int, stop: int, end: int | None, whose: str) -> None:
    """Raise unless 0 <= start <= stop <= end."""
    if start < 0 or stop < start or (end is not None and stop > end):
        last = "without end" if end is None else f"0 … {end}"
        raise WorkloadError(
            f"Rows {start} … {stop} of {whose} do not exist: its range is {last}. "
            f"Ask for 0 <= start <= stop{'' if end is None else f' <= {end}'}."
        )


def check_order(order: str) -> None:
    """Raise unless keys can be numbered so: as they are, or anew, the most frequent first."""
    if order not in ("as-they-are", "by-frequency"):
        raise WorkloadError(f"order is 'as-they-are' or 'by-frequency', not {order!r}.")


def timestamps(microseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Microseconds since 1970 as timestamp[us], without copying."""
    return pa.array(microseconds).view(pa.timestamp("us"))
