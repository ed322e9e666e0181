"""Where a page file's rows lie after a read: who may hold them, and how many bytes that takes."""

from __future__ import annotations

import ctypes
import gc
import threading
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import MasterError
from penstock.masters import PageFileMaster, build_master, verify_master
from penstock.masters.aligned_reads import BLOCK, AlignedReader, covering_nbytes

OpenBuilt = Callable[..., PageFileMaster]

NAMES = ["id", "price", "name", "sold"]


@pytest.fixture
def master(open_built: OpenBuilt, products: pa.Table) -> Iterator[PageFileMaster]:
    with open_built(products, page_bytes=2_000) as opened:
        assert opened.num_pages > 80
        yield opened


@pytest.fixture
def buffers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The buffers that reads have gone to, each once, in the order in which they were made."""
    made: list[Any] = []
    read = AlignedReader.read

    def watched(self: AlignedReader, *request: Any) -> Any:
        result = read(self, *request)
        if not any(self._buffer is buffer for buffer in made):
            made.append(self._buffer)
        return result

    monkeypatch.setattr(AlignedReader, "read", watched)
    return made


def place(rows: pa.Table) -> int:
    """The address of the first page's keys."""
    return int(rows.column("id").chunk(0).buffers()[1].address)


def used_again(buffers: list[Any]) -> bool:
    """Whether a buffer was only ever made because a larger one was needed."""
    sizes = list(map(len, buffers))
    return sizes == sorted(set(sizes))


# --- rows that are held ----------------------------------------------------------------------


def test_rows_lie_where_they_were_read_to(master: PageFileMaster) -> None:
    allocated = pa.total_allocated_bytes()
    rows = master.read(range(0, 60, 3), NAMES)
    assert pa.total_allocated_bytes() == allocated
    buffer = np.frombuffer(master._reader._buffer, dtype=np.uint8)
    begin, end = buffer.ctypes.data, buffer.ctypes.data + len(buffer)
    parts = [b for c in rows.columns for chunk in c.chunks for b in chunk.buffers() if b]
    assert len(parts) >= 20 * 5
    assert all(begin <= b.address and b.address + b.size <= end for b in parts if b.size)


@pytest.mark.parametrize("pages", [[7], [3, 4, 5], [0, 40, 80]])
def test_the_next_read_has_the_buffer_of_rows_that_were_dropped(
    master: PageFileMaster, pages: list[int]
) -> None:
    rows = master.read(pages, NAMES)
    address = place(rows)
    for _ in range(5):
        del rows
        rows = master.read(pages, NAMES)
        assert place(rows) == address
    held = [rows, *(master.read(pages, NAMES) for _ in range(5))]
    assert len(set(map(place, held))) == 6


def test_all_results_that_are_alive_stay_right(master: PageFileMaster, products: pa.Table) -> None:
    in_order = products.sort_by("id")
    bounds = np.concatenate(([0], np.cumsum(master.index.rows)))
    pages = [3, 9, 4, 60, 3, 0, 80]
    results = [master.read([page], NAMES) for page in pages]
    results.append(master.read(range(master.num_pages), NAMES))
    for page, rows in zip(pages, results, strict=False):
        assert rows.equals(in_order.slice(bounds[page], master.index.rows[page]))
    assert results[-1].equals(in_order)


@pytest.mark.parametrize(
    "part_of",
    [
        lambda rows: rows,
        lambda rows: rows.select(["sold"]),
        lambda rows: rows.column("name").chunk(1),
        lambda rows: rows.column("name").chunk(2).slice(5, 2),
        lambda rows: rows.to_batches()[1].column("price"),
        lambda rows: rows.column("name").chunk(0)[1],
        lambda rows: rows.column("id").chunk(2).to_numpy(zero_copy_only=True),
        lambda rows: rows.column("id").chunk(1).buffers()[1],
        lambda rows: memoryview(rows.column("id").chunk(1).buffers()[1])[8:16],
    ],
    ids=["rows", "column", "page", "slice", "batch", "scalar", "numpy", "buffer", "memory view"],
)
@pytest.mark.parametrize("columns", [NAMES, ["name", "id", "price", "sold"]])
def test_a_part_that_is_held_stays_right(
    master: PageFileMaster, columns: list[str], part_of: Callable[[Any], Any]
) -> None:
    def values(part: Any) -> Any:
        return bytes(part) if isinstance(part, pa.Buffer | memoryview) else str(part)

    first = master.read([3, 5, 9], columns)
    address, kept = place(first), part_of(first)
    del first
    before = values(kept)
    for pages in ([4, 6, 10], [3], range(50)):
        assert place(master.read(pages, columns)) != address
        assert values(kept) == before
    del kept


def test_threads_may_hold_what_they_read(master: PageFileMaster, products: pa.Table) -> None:
    in_order = products.sort_by("id")
    bounds = np.concatenate(([0], np.cumsum(master.index.rows)))
    checked: list[int] = []
    failures: list[Exception] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        held: deque[tuple[int, str, pa.Array]] = deque(maxlen=4)
        try:
            for _ in range(60):
                pages = np.sort(random.choice(master.num_pages, 3, replace=False))
                rows = master.read(pages, NAMES)
                chosen, name = int(random.integers(3)), NAMES[random.integers(len(NAMES))]
                held.append((int(pages[chosen]), name, rows.column(name).chunk(chosen)))
                del rows
                for page, column, values in held:
                    first, count = bounds[page], master.index.rows[page]
                    wanted = in_order.column(column).slice(first, count)
                    assert pa.chunked_array([values]).equals(wanted)
                checked.append(len(held))
        except (AssertionError, MasterError, pa.ArrowException) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(checked) == 360


def test_rows_outlive_refresh_and_close(tmp_path: Path) -> None:
    path = tmp_path / "r.arrow"
    build_master(pa.table({"k": range(500), "v": [1] * 500}), path, "k", version="1")
    master = PageFileMaster(path)
    old = master.read([0], ["k", "v"])
    build_master(pa.table({"k": range(500), "v": [2] * 500}), path, "k", version="2")
    assert master.refresh() is not None
    new = master.read([0], ["k", "v"])
    master.close()
    del master
    gc.collect()
    assert old.to_pydict() == {"k": [*range(500)], "v": [1] * 500}
    assert new.to_pydict() == {"k": [*range(500)], "v": [2] * 500}


# --- buffers that are used again -------------------------------------------------------------


def test_refresh_keeps_the_buffer(tmp_path: Path, buffers: list[Any]) -> None:
    path = tmp_path / "r.arrow"
    build_master(pa.table({"k": range(500)}), path, "k", version="1")
    with PageFileMaster(path) as master:
        master.read([0], ["k"])
        build_master(pa.table({"k": range(500)}), path, "k", version="2")
        assert master.refresh() is not None
        master.read([0], ["k"])
    assert len(buffers) == 1


def test_look_ups_use_one_buffer_and_hold_none(
    master: PageFileMaster,
    products: pa.Table,
    buffers: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One page at a time: then rows are in one piece as they were read.
    monkeypatch.setattr("penstock.masters.indexed_pages._LOOK_UP_BYTES", 1)
    for columns in (["id"], NAMES):
        found = master.look_up(products["id"], columns)
        assert pa.Table.from_batches([found]).equals(products.sort_by("id").select(columns))
        few = master.look_up(products["id"].slice(0, 1), columns)
        kept = few.to_pydict()
        master.look_up(products["id"], columns)
        assert few.to_pydict() == kept == products.slice(0, 1).select(columns).to_pydict()
    assert master.reads.io_reads >= 4 * master.num_pages
    assert used_again(buffers)


def test_verify_uses_one_buffer(master: PageFileMaster, buffers: list[Any]) -> None:
    assert verify_master(master.path).pages == master.num_pages
    assert used_again(buffers)


# --- bytes -----------------------------------------------------------------------------------


class _Heap(ctypes.Structure):
    """What glibc's mallinfo2 answers."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def heap_in_use() -> int:
    """Bytes that were taken from malloc, by Arrow's objects above all, and not given back."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        pytest.skip("needs glibc 2.33 or newer")
    ask.restype = _Heap
    heap = ask()
    return int(heap.uordblks + heap.hblkhd)


def taken_by_read(
    master: PageFileMaster, pages: Any, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> int:
    """Bytes beside the buffers at the end of a read, when it holds the most."""
    most = 0
    whole = pa.Table.from_batches

    class Tables:
        @staticmethod
        def from_batches(batches: Any) -> pa.Table:
            nonlocal most
            rows = whole(batches)
            most = heap_in_use()
            return rows

    class Arrow:
        Table = Tables

        def __getattr__(self, name: str) -> Any:
            return getattr(pa, name)

    with monkeypatch.context() as watched:
        watched.setattr("penstock.masters.page_file.pa", Arrow())
        gc.collect()
        for _ in range(2):
            before = heap_in_use()
            rows = master.read(pages, columns)
            most = max(most, heap_in_use()) - before
            del rows
    tracemalloc.start()
    master.read(pages, columns)
    _, objects = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most + objects


ROWS = 1_000
COLUMNS: dict[str, pa.Array] = {
    "number": pa.array(range(ROWS)),
    "number or null": pa.array([None if i % 3 == 0 else i for i in range(ROWS)]),
    "text or null": pa.array([None if i % 3 == 0 else f"{i}" for i in range(ROWS)]),
    "bit": pa.array([i % 2 == 0 for i in range(ROWS)]),
    "nothing": pa.nulls(ROWS),
    "list": pa.array([[f"{i}", None] if i % 3 else None for i in range(ROWS)]),
    "fixed list": pa.array([[i, None] for i in range(ROWS)], pa.list_(pa.int64(), 2)),
    "struct": pa.array([{"a": i, "b": "x", "c": [1.0]} if i % 4 else None for i in range(ROWS)]),
    "map": pa.array(
        [[("a", 1), ("b", None)], None] * (ROWS // 2), pa.map_(pa.string(), pa.int64())
    ),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("width", [1, 12])
def test_what_a_read_holds_is_what_was_said(
    open_built: OpenBuilt, monkeypatch: pytest.MonkeyPatch, kind: str, width: int
) -> None:
    columns = {f"c{i}": COLUMNS[kind] for i in range(width)}
    with open_built(pa.table({"id": range(ROWS), **columns}), page_bytes=600) as master:
        largest_first = np.argsort(np.diff(master.index.offsets))[::-1]
        for count in (1, 3, min(40, master.num_pages)):
            pages = np.sort(largest_first[:count])
            for names in (master.schema.names, ["id"]):
                taken = taken_by_read(master, pages, names, monkeypatch)
                lengths = np.diff(master.index.offsets)[pages]
                buffers = int(covering_nbytes(lengths).sum()) + len(master._reader._scratch)
                assert len(master._reader._buffer) + len(master._reader._scratch) <= buffers
                assert buffers + taken <= master.buffer_nbytes(count)


def test_what_is_said_is_not_much_more(master: PageFileMaster) -> None:
    lengths = np.sort(np.diff(master.index.offsets))[::-1]
    for pages in (1, 3, 40, master.num_pages):
        blocks = lengths[:pages].sum() + 2 * BLOCK * pages
        assert master.buffer_nbytes(pages) < blocks + 74_000 + 4_100 * pages


def test_pages_get_no_validity_from_their_neighbours(open_built: OpenBuilt) -> None:
    values = pa.array([None] + [7] * 19_999, pa.int8())
    with open_built(pa.table({"id": range(20_000), "v": values})) as master:
        assert master.num_pages == 3
        rows = master.read(range(3), ["id", "v"])
        with_bits = [chunk.buffers()[0] is not None for chunk in rows.column("v").chunks]
        assert with_bits == [True, False, False]
        held = len(master._reader._buffer) + len(master._reader._scratch)
        assert held <= master.buffer_nbytes(3)
