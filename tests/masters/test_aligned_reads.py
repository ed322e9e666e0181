"""Plans of reads, and reads that come short, against a file of known bytes."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.masters import aligned_reads
from penstock.masters.aligned_reads import (
    BLOCK,
    CALL_BYTES,
    GAP_BYTES,
    AlignedReader,
    ShortRead,
    covering_nbytes,
    plan_reads,
    use_direct,
)

SIZE = 3_000_001


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    data = np.random.default_rng(1).bytes(SIZE)
    path = tmp_path_factory.mktemp("aligned") / "data"
    path.write_bytes(data)
    return path, data


@pytest.fixture
def file(content: tuple[Path, bytes]) -> Iterator[int]:
    handle = os.open(content[0], os.O_RDONLY)
    yield handle
    os.close(handle)


def ranges(cuts: list[int]) -> tuple[Any, Any]:
    """Ranges between every second pair of cuts."""
    pairs = list(pairwise(sorted(set(cuts))))[::2]
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])


def nothing(_buffer: Any, _part: slice) -> None:
    pass


def read_all(reader: AlignedReader, file: int, starts: Any, ends: Any) -> tuple[list[bytes], int]:
    plan = plan_reads(starts, ends)
    buffer, calls, nbytes = reader.read(file, plan, nothing)
    assert nbytes >= int((ends - starts).sum())
    spans = zip(plan.positions.tolist(), (ends - starts).tolist(), strict=True)
    return [buffer[at : at + size].tobytes() for at, size in spans], calls


@settings(deadline=None)
@given(st.lists(st.integers(0, SIZE), min_size=2, max_size=60, unique=True))
def test_plans_are_whole_blocks_that_cover_their_ranges(cuts: list[int]) -> None:
    starts, ends = ranges(cuts)
    plan = plan_reads(starts, ends)
    served = [i for call in plan.calls for i in range(call.ranges.start, call.ranges.stop)]
    assert served == list(range(len(starts)))
    position = 0
    for call in plan.calls:
        inside = range(call.ranges.start, call.ranges.stop)
        assert call.end == ends[inside[-1]]
        assert starts[inside[-1]] // BLOCK * BLOCK - call.pieces[0].first < CALL_BYTES or (
            len(inside) == 1
        )
        for before, after in pairwise(call.pieces):
            assert 0 < after.first - before.last <= GAP_BYTES
        for piece in call.pieces:
            assert piece.first % BLOCK == piece.last % BLOCK == piece.position % BLOCK == 0
            assert piece.position == position, "the buffer has no holes"
            position += piece.last - piece.first
        for i in inside:
            (holder,) = [p for p in call.pieces if p.first <= starts[i] and ends[i] <= p.last]
            assert plan.positions[i] - holder.position == starts[i] - holder.first
    assert plan.buffer_nbytes == position
    assert plan.buffer_nbytes <= covering_nbytes(ends - starts).sum()


def test_neighbours_and_near_ranges_are_one_call() -> None:
    starts = np.array([0, 5_000, 60_000, 60_000 + GAP_BYTES + 3 * BLOCK])
    ends = starts + 5_000
    plan = plan_reads(starts, ends)
    assert [len(c.pieces) for c in plan.calls] == [2, 1]
    assert [c.ranges for c in plan.calls] == [slice(0, 3), slice(3, 4)]


def test_long_stretches_are_several_calls() -> None:
    starts = np.arange(64) * 65_536
    plan = plan_reads(starts, starts + 65_536)
    assert [c.ranges.stop - c.ranges.start for c in plan.calls] == [16, 16, 16, 16]
    assert plan.buffer_nbytes == 64 * 65_536


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("direct", [False, True])
def test_reads_what_is_in_the_file(
    content: tuple[Path, bytes], file: int, threads: int, direct: bool
) -> None:
    if direct and not use_direct(file):
        pytest.skip("this file system takes no direct reads")
    reader = AlignedReader(threads)
    random = np.random.default_rng(threads)
    for count in (2, 3, 40, 400, 4, 1_000):
        starts, ends = ranges([*random.integers(0, SIZE, count).tolist(), SIZE, 0])
        parts, calls = read_all(reader, file, starts, ends)
        assert parts == [content[1][a:b] for a, b in zip(starts, ends, strict=True)]
        assert calls == len(plan_reads(starts, ends).calls)
    reader.close()


def test_the_buffer_is_used_again(file: int) -> None:
    reader = AlignedReader(1)
    large = plan_reads(np.array([0]), np.array([100_000]))
    small = plan_reads(np.array([200_000]), np.array([200_010]))
    first, _, _ = reader.read(file, large, nothing)
    assert len(first) == 102_400
    address = first.ctypes.data
    del first
    for plan in (small, large, small):
        again, _, _ = reader.read(file, plan, nothing)
        assert again.ctypes.data == address
        assert len(again) == 102_400
        del again


@pytest.mark.parametrize(
    "part_of",
    [
        lambda buffer: buffer,
        lambda buffer: buffer[100:50_000][7:],
        lambda buffer: buffer[:80_000].view(np.int64),
        lambda buffer: memoryview(buffer)[5:],
        lambda buffer: pa.py_buffer(buffer).slice(3, 60_000),
    ],
    ids=["all", "slice", "view", "memory view", "Arrow buffer"],
)
def test_a_buffer_that_is_held_is_not_written_to(file: int, part_of: Any) -> None:
    reader = AlignedReader(1)
    one = plan_reads(np.array([0]), np.array([100_000]))
    other = plan_reads(np.array([204_800]), np.array([300_000]))
    first, _, _ = reader.read(file, one, nothing)
    address = first.ctypes.data
    kept = part_of(first)
    del first
    before = bytes(kept)
    second, _, _ = reader.read(file, other, nothing)
    assert second.ctypes.data != address
    assert bytes(kept) == before
    del kept, second


@pytest.mark.parametrize("threads", [1, 4])
def test_failed_reads_leave_the_buffer_free(file: int, threads: int) -> None:
    reader = AlignedReader(threads)
    starts = np.arange(10) * 200_000
    plan = plan_reads(starts, starts + 100)
    first, _, _ = reader.read(file, plan, nothing)
    address, watched = first.ctypes.data, weakref.WeakSet([reader._buffer])
    del first
    errors = []
    for failing in range(10):

        def refuse(_buffer: Any, part: slice, failing: int = failing) -> None:
            if part.start == failing:
                raise ValueError(f"call {failing}")

        with pytest.raises(ValueError, match=f"call {failing}") as caught:
            reader.read(file, plan, refuse)
        errors.append(caught.value)
    again, _, _ = reader.read(file, plan, nothing)
    assert again.ctypes.data == address, "errors that are held do not hold the buffer"
    del again, errors, caught
    reader.close()  # no thread is left that has not yet let go of its work
    # Were an error part of a cycle, a larger read would leave this buffer to the collector.
    gc.disable()
    try:
        reader.read(file, plan_reads(np.array([0]), np.array([SIZE])), nothing)
        assert len(watched) == 0
    finally:
        gc.enable()


def test_each_call_is_checked_once(file: int) -> None:
    seen: list[slice] = []
    starts = np.arange(10) * 200_000
    plan = plan_reads(starts, starts + 100)
    AlignedReader(3).read(file, plan, lambda _buffer, part: seen.append(part))
    assert sorted(part.start for part in seen) == list(range(10))


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failing_check_ends_the_read_and_the_next_works(file: int, threads: int) -> None:
    reader = AlignedReader(threads)
    starts = np.arange(10) * 200_000
    plan = plan_reads(starts, starts + 100)

    def refuse(_buffer: Any, part: slice) -> None:
        if part.start == 7:
            raise ValueError("seven")

    with pytest.raises(ValueError, match="seven"):
        reader.read(file, plan, refuse)
    _, calls, _ = reader.read(file, plan, nothing)
    assert calls == 10


@pytest.mark.parametrize("at_most", [BLOCK, BLOCK + 1, 2 * BLOCK + 100, 50_000])
def test_short_reads_are_taken_up_again(
    content: tuple[Path, bytes], file: int, monkeypatch: pytest.MonkeyPatch, at_most: int
) -> None:
    whole = os.preadv

    def short(handle: int, targets: list[memoryview], offset: int) -> int:
        got = whole(handle, targets, offset)
        return min(got, at_most)

    monkeypatch.setattr(os, "preadv", short)
    starts, ends = np.array([1_000, 50_000, 120_500]), np.array([9_000, 110_000, 130_000])
    parts, calls = read_all(AlignedReader(1), file, starts, ends)
    assert parts == [content[1][a:b] for a, b in zip(starts, ends, strict=True)]
    assert calls > 1


@pytest.mark.parametrize("size", [0, 100, BLOCK, 5_000])
def test_a_file_that_ends_too_soon(tmp_path: Path, size: int) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"x" * size)
    handle = os.open(path, os.O_RDONLY)
    with pytest.raises(ShortRead) as caught:
        AlignedReader(1).read(handle, plan_reads(np.array([10]), np.array([6_000])), nothing)
    os.close(handle)
    assert caught.value.reached == size


def test_direct_is_given_up_where_the_file_system_refuses(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fcntl.fcntl(file, fcntl.F_GETFL)

    def refuse(*_: Any) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(aligned_reads.os, "preadv", refuse)
    assert not use_direct(file)
    assert fcntl.fcntl(file, fcntl.F_GETFL) == before


def test_other_errors_of_the_probe_are_not_hidden(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(aligned_reads.os, "preadv", refuse)
    with pytest.raises(OSError, match="Input/output"):
        use_direct(file)


def test_a_forked_process_leaves_the_buffer_and_has_threads_of_its_own(
    content: tuple[Path, bytes], file: int
) -> None:
    reader = AlignedReader(4)
    starts = np.arange(10) * 200_000
    read_all(reader, file, starts, starts + 100)
    in_flight = reader._buffer
    reader.after_fork()
    reader._workers.after_fork()
    parts, _ = read_all(reader, file, starts, starts + 100)
    assert parts == [content[1][a : a + 100] for a in starts]
    assert reader._buffer is not in_flight
    reader.close()


def test_an_interrupted_read_leaves_its_buffer_to_the_threads(
    content: tuple[Path, bytes], file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = AlignedReader(2)
    starts = np.arange(10) * 200_000
    plan = plan_reads(starts, starts + 100)
    first, _, _ = reader.read(file, plan, nothing)
    address = first.ctypes.data
    del first
    begun, go_on = threading.Event(), threading.Event()
    late: list[Any] = []

    def hang(buffer: Any, _part: slice) -> None:
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(30)
        else:
            begun.set()
            go_on.wait(30)
            late.append(buffer.ctypes.data)

    def interrupt(_waiting: Future[None]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Future, "exception", interrupt)
        with pytest.raises(KeyboardInterrupt):
            reader.read(file, plan, hang)
    again, _, _ = reader.read(file, plan_reads(starts[:1], starts[:1] + 100), nothing)
    go_on.set()
    reader.close()
    assert late == [address]
    assert again.ctypes.data != address
    assert again[:100].tobytes() == content[1][:100]
