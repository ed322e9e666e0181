"""Memory that agrees with what is counted: regions that are held only where they were touched, and
Arrow allocations from the system, since Arrow's own allocator keeps freed memory for itself (20 MB
more than was held, measured at a budget of 50 MB). Output has blocks of its own that are used
again: among smaller things the system's allocator did not, and grew by 20 MB in 16 million rows.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None)
POOL = pa.system_memory_pool()


def give_back_freed() -> None:
    """Have the system's allocator give back what it keeps of freed memory, where it can.

    Takes a tenth of a millisecond. Temporary arrays of an R with many pages left 25 MB behind.
    """
    trim = getattr(_LIBC, "malloc_trim", None)  # glibc's own
    if trim is not None:
        trim(0)


def private_memory(nbytes: int) -> mmap.mmap:
    """Memory of this process alone: Python's own default is shared with processes forked later,
    which would write over it, and is not given back by `madvise`."""
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Region:
    """An array at a fixed address whose tail can be returned to the system.

    Reserving takes address space, not memory: the system backs a page when it is first written.
    So an array can be as long as the budget would ever allow, grow without being copied, and
    shrink by `release`.
    """

    def __init__(self, rows: int, row_shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        kind = np.dtype(dtype)
        self.row_nbytes = kind.itemsize * int(np.prod(row_shape, dtype=np.int64))
        self._map = private_memory(max(rows * self.row_nbytes, 1))
        self.array: npt.NDArray[np.generic] = np.frombuffer(
            self._map, dtype=kind, count=rows * self.row_nbytes // kind.itemsize
        ).reshape(rows, *row_shape)

    def release(self, first_row: int) -> None:
        """Give back the memory of all rows from `first_row` on; what was in them is lost."""
        start = -(-first_row * self.row_nbytes // PAGE) * PAGE
        if start < len(self._map) and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, start)


_BLOCK_STEP = 256 * 1024
_SPARE_BLOCKS, _SPARE_NBYTES = 4, 8 * 1024 * 1024
_spare: list[mmap.mmap] = []


def lent_memory(nbytes: int) -> pa.Buffer:
    """Memory for rows that go out; when the last of them is let go, other rows may have it.

    What is kept for these is little: four blocks, and no more than 8 MiB in all.
    """
    if nbytes < _BLOCK_STEP // 2:
        return pa.allocate_buffer(nbytes, memory_pool=POOL)
    block = _taken_from_spare(nbytes) or private_memory(-(-nbytes // _BLOCK_STEP) * _BLOCK_STEP)
    lent = np.frombuffer(block, dtype=np.uint8)
    weakref.finalize(lent, _keep_spare, block).atexit = False
    return pa.py_buffer(lent)


def _taken_from_spare(nbytes: int) -> mmap.mmap | None:
    fitting = [block for block in _spare if nbytes <= len(block) <= 4 * nbytes]
    if not fitting:
        return None
    block = min(fitting, key=len)
    try:
        _spare.remove(block)
    except ValueError:  # another thread was faster
        return None
    return block


def _keep_spare(block: mmap.mmap) -> None:
    _spare.append(block)
    while len(_spare) > _SPARE_BLOCKS or sum(map(len, _spare)) > _SPARE_NBYTES:
        del _spare[0]


def in_one_piece(data: pa.Table | pa.ChunkedArray | pa.Array) -> pa.RecordBatch | pa.Array:
    """A table as one batch, a chunked column as one array; copied only if there are several."""
    if isinstance(data, pa.Array):
        return data
    if isinstance(data, pa.Table):
        arrays = [in_one_piece(column) for column in data.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=data.schema)
    if data.num_chunks == 1:
        return data.chunk(0)
    return (
        pa.concat_arrays(data.chunks, memory_pool=POOL)
        if data.num_chunks
        else pa.nulls(0, data.type)
    )
