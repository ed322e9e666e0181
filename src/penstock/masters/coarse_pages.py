"""Several neighbouring pages as one: for a join that reads few pages for many rows each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import MasterError
from penstock.keys import Int64s, Keys
from penstock.masters.base import Changes, Master, PageNumbers
from penstock.masters.page_runs import together
from penstock.masters.point_reads import Found
from penstock.masters.requests import page_numbers, ranges

if TYPE_CHECKING:
    from typing_extensions import Self

PagesPerRead = int | Callable[[Master], int]
"""How many, or a function that chooses for each version of the master."""
_LEAST_UNITS = 256
_BUFFER_SHARE = 8


@runtime_checkable
class ReadsRuns(Protocol):
    """A master that knows runs of neighbouring pages; of a size of runs, the first is at page 0."""

    def run_rows(self, pages: int) -> int:
        """Rows of the largest run of so many pages."""

    def run_nbytes(self, pages: int) -> int:
        """Bytes of the largest run as one chunk of all columns, at the most."""

    def run_buffer_nbytes(self, pages: int, runs: int) -> int:
        """Bytes held while that many runs, the largest, are read and what was read is kept."""

    def read_runs(self, firsts: Int64s, counts: Int64s, columns: Sequence[str]) -> pa.Table:
        """These columns of runs that ascend: so many pages from each first one on.

        A chunk for each run, or fewer.
        """


class CoarsePages:
    """Stands in for a master: its page i is the pages from i·f on, f of them, and is one read.

    The master's own pages stay as they are in the file, for who wants small ones. A page here has
    its rows in one chunk, so while it is read its rows are held twice: as they lie on the master's
    pages, and together. Single rows are found on the master's own pages.

    Args:
        master: the master with the smaller pages.
        pages_per_read: f, or a function that chooses it for each version of the master.

    >>> from penstock.masters import MemoryMaster
    >>> small = MemoryMaster(pa.table({"id": range(7), "price": range(7)}), "id", page_rows=1)
    >>> master = CoarsePages(small, 3)
    >>> master.num_pages, master.page_of(pa.array([0, 2, 3, 6])).tolist()
    (3, [0, 0, 1, 2])
    >>> master.read([0, 2], ["price"])["price"].to_pylist()
    [0, 1, 2, 6]
    """

    def __init__(self, master: Master, pages_per_read: PagesPerRead) -> None:
        self.wrapped = master
        self._chosen = pages_per_read
        self.in_memory = bool(getattr(master, "in_memory", False))
        self._adopt()

    def _adopt(self) -> None:
        master = self.wrapped
        chosen = self._chosen if isinstance(self._chosen, int) else self._chosen(master)
        if chosen < 1:
            raise MasterError(f"a read is of one page or more, not {chosen}.")
        self.pages_per_read = chosen
        self.schema, self.key, self.hash_seed = master.schema, master.key, master.hash_seed
        self.num_rows, self.num_pages = master.num_rows, -(-master.num_pages // chosen)
        self._adopted, self.reads = master.version, master.reads
        self.index_nbytes, self.data_nbytes = master.index_nbytes, master.data_nbytes
        own = getattr(master, "page_bytes", None)
        self.page_bytes: int | None = None if own is None else own * chosen
        self.smaller_pages: str | None = getattr(master, "smaller_pages", None)
        self.max_page_rows, self.max_page_nbytes = master.max_page_rows, master.max_page_nbytes
        self._runs = master if chosen > 1 and isinstance(master, ReadsRuns) else None
        self._buffers: dict[int, int] = {}
        if self._runs is not None:
            self.max_page_rows = self._runs.run_rows(chosen)
            self.max_page_nbytes = self._runs.run_nbytes(chosen)
        elif chosen > 1:
            self.max_page_rows = min(chosen * master.max_page_rows, master.num_rows)
            self.max_page_nbytes = chosen * master.max_page_nbytes

    def __repr__(self) -> str:
        return f"CoarsePages({self.wrapped!r}, {self.pages_per_read})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def page_of(self, keys: Keys | pa.Array) -> PageNumbers:
        """The page of each key, or the page that it would be on; null keys get any page."""
        return self.wrapped.page_of(keys) // self.pages_per_read

    def buffer_nbytes(self, pages: int) -> int:
        """Bytes held while that many pages, the largest, are read and what was read is kept."""
        count = min(pages, self.num_pages)
        if count not in self._buffers:
            self._buffers[count] = self._buffer_nbytes(count)
        return self._buffers[count]

    def _buffer_nbytes(self, count: int) -> int:
        each = self.pages_per_read
        if self._runs is not None:
            return self._runs.run_buffer_nbytes(each, count)
        read = self.wrapped.buffer_nbytes(count * each)
        return read if each == 1 else read + count * self.max_page_nbytes

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows of these pages, which ascend; a chunk for each, or fewer."""
        wanted, master = page_numbers(pages, self.num_pages), self.wrapped
        firsts = wanted * self.pages_per_read
        counts = np.minimum(firsts + self.pages_per_read, master.num_pages) - firsts
        try:
            if self._runs is not None:
                return self._runs.read_runs(firsts, counts, columns)
            return together(master.read(ranges(firsts, counts), columns), counts)
        finally:
            self.reads = master.reads

    def look_up(self, keys: Keys | pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the rows that have one of these keys, by the master's own pages."""
        try:
            return self.wrapped.look_up(keys, columns)
        finally:
            self.reads = self.wrapped.reads

    @property
    def unique(self) -> bool:
        """What the master's own says; where it has none, two rows may have one key."""
        return bool(getattr(self.wrapped, "unique", False))

    @property
    def looks_up_only(self) -> bool:
        """What the master's own says; where it has none, pages can be read."""
        return bool(getattr(self.wrapped, "looks_up_only", False))

    def look_up_nbytes(self, keys: int) -> int | None:
        """What the master's own says; None where it has none."""
        room = getattr(self.wrapped, "look_up_nbytes", None)
        return None if room is None else room(keys)

    def worth_a_page(self, keys: Int64s) -> npt.NDArray[np.bool_]:
        """Whether so many keys are worth a page: as many to each of the master's own."""
        chosen: npt.NDArray[np.bool_] = self.wrapped.worth_a_page(keys // self.pages_per_read)  # type: ignore[attr-defined]
        return chosen

    def look_up_buffer(self, columns: Sequence[str] | None) -> int | None:
        """What the master's own says; None where it has none."""
        room = getattr(self.wrapped, "look_up_buffer", None)
        return None if room is None else room(columns)

    def find_rows(
        self, codes: Int64s, pages: PageNumbers, columns: Sequence[str], buffer_nbytes: int
    ) -> Found:
        """Single rows, by the master's own pages."""
        own = self.wrapped.page_of(Keys.of_codes(codes, list, self.hash_seed))
        try:
            found: Found = self.wrapped.find_rows(codes, own, columns, buffer_nbytes)  # type: ignore[attr-defined]
            return found
        finally:
            self.reads = self.wrapped.reads

    def refresh(self) -> Changes | None:
        """Go over to the newest version of R; None when it has not changed.

        What changed is told by ranges of keys, which are the same for pages of any size.
        """
        changes = self.wrapped.refresh()
        self.follow()
        return changes

    def follow(self) -> None:
        """Go over to the version that the master itself has, where someone else refreshed it."""
        if self.wrapped.version != self._adopted:
            self._adopt()

    @property
    def version(self) -> str:
        return self.wrapped.version

    def close(self) -> None:
        self.wrapped.close()


@dataclass(frozen=True)
class ReadUnits:
    """Chooses how many pages are one read: as many as have `nbytes` bytes.

    Fewer where R would have less than some hundred units, so that rows gather for parts of it, and
    where reading a unit would take an eighth of the join's budget more than reading a page: one
    long page among short ones makes its unit as long.

    >>> from penstock.masters import MemoryMaster
    >>> table = pa.table({"id": range(30_000)})
    >>> [ReadUnits(64, 10**6)(MemoryMaster(table, "id", page_rows=n)) for n in (1, 2, 8, 60)]
    [8, 4, 1, 1]
    """

    nbytes: int
    budget: int

    def __call__(self, master: Master) -> int:
        mean = max(master.data_nbytes // max(master.num_pages, 1), 1)
        pages = max(min(self.nbytes // mean, master.num_pages // _LEAST_UNITS), 1)
        most = master.buffer_nbytes(1) + self.budget // _BUFFER_SHARE
        while pages > 1 and CoarsePages(master, pages).buffer_nbytes(1) > most:
            pages //= 2
        return pages
