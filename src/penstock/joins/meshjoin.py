"""MESHJOIN: R is read round and round, and a row stays for one whole round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from penstock.budget import format_bytes, parse_bytes
from penstock.errors import BudgetError, OptionError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.sizing import Sizing
from penstock.masters.base import Changes, Master
from penstock.rows import NONE, Moves, Slots
from penstock.schedules import Cyclic
from penstock.window import Window

DiskBuffer = int | str | Literal["tuned", "default"]
DEFAULT_DISK_BUFFER = 930_000
_POINTER = 4
_PROBE_SECONDS = 20e-9
_BUFFER_SHARE = 4
"""A disk buffer that is not given takes at most this part of what is free beyond one page."""


@dataclass(frozen=True)
class ReadCost:
    """What reading bytes of R in one go costs: `seconds + seconds_per_byte · bytes`."""

    seconds: float = 85e-6
    seconds_per_byte: float = 0.17e-6 / 1024

    def __post_init__(self) -> None:
        if min(self.seconds, self.seconds_per_byte) < 0 or not self.of(1.0):
            raise OptionError.out_of_range("read_cost", self, "seconds of 0 or more, not both 0")

    def of(self, nbytes: float) -> float:
        return self.seconds + self.seconds_per_byte * nbytes


DEFAULT_READ_COST = ReadCost()
"""As measured on one machine with a local disk; calibrate to have yours."""


@dataclass(frozen=True, kw_only=True)
class MeshJoin(JoinPlan):
    """Read R cyclically, b pages a step; a row meets all of R, then leaves (MESHJOIN).

    A round over the N_R pages of R takes k = N_R / b steps. Each step drops the w rows that have
    been there for k steps, admits w new ones, reads the next b pages and answers every row that
    matches. A row leaves after exactly one round. Needs no index; takes R in any order.

    Memory: M = b·v_P + w·v_S + w·k·ptr + w·k·v_S·f: disk buffer, stream buffer, queue and hash
    table. Ours is a window of w·k rows with 4 bytes a row for the queue. Cost of a step:
    c_IO(b·v_P) + w (c_E + c_S + c_A) + b (v_P/v_R) (c_H + σ c_O), σ the matches per row of R.

    `disk_buffer` is b·v_P in bytes; `"tuned"` takes the b with the highest predicted w per cost of
    a step, by trying sizes a sixteenth apart, with `read_cost` for c_IO; `"default"` the fixed
    0.93 MB of Naeem, Dobbie & Weber; neither takes more than a quarter of what is free.

    Pages: N_R / h per row, for a window of h rows, whatever the skew. Probes: one search of the
    page for each waiting row of it.

    How we read it: w is as many rows as leave, so rows may be of any width; at the start, the free
    room divided by the steps to go. A step is taken when w rows have come (or the stream pauses),
    as in the paper; in `flush`, until all rows are answered. Fences tell each row's page, so only
    rows of the pages in the buffer are probed, and a row without partner is found out when its
    page passes; answered, both still hold their place to the end of the round. Only a `max_wait`
    shorter than a round reads a page out of turn.

    Polyzotis, Skiadopoulos, Vassiliadis, Simitsis & Frantzell, "Supporting streaming updates in an
    active data warehouse", ICDE 2007, as described by Naeem, Dobbie & Weber, "Comparing global
    optimization and default settings of stream-based joins", BIRTE 2009.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = MeshJoin(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "MESHJOIN"
    disk_buffer: DiskBuffer = "tuned"
    read_cost: ReadCost = DEFAULT_READ_COST

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.disk_buffer not in ("tuned", "default"):
            parse_bytes(self.disk_buffer)

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        return MeshOperator(self, master, binding, clock, self._pages_and_sizing(master, binding))

    def _pages_and_sizing(self, master: Master, binding: Binding) -> tuple[int, Sizing]:
        """The pages of a step, and the budget shared out for them."""
        one = self._sizing(master, binding, 1)
        most = one.disk_buffer + (one.free - one.least_window) // _BUFFER_SHARE
        if self.disk_buffer == "tuned":
            pages = tuned_pages_per_step(one.disk_buffer + one.free, most, master, self.read_cost)
        elif self.disk_buffer == "default":
            pages = _pages_within(DEFAULT_DISK_BUFFER, master)
            while pages > 1 and master.buffer_nbytes(pages) > most:
                pages = pages * 15 // 16
        else:
            pages = _pages_within(parse_bytes(self.disk_buffer), master)
        return pages, self._sizing(master, binding, pages)

    def _sizing(self, master: Master, binding: Binding, pages: int) -> Sizing:
        return Sizing.of(
            self.title,
            self.budget_bytes,
            master,
            binding,
            pages_per_read=pages,
            extra_index=_Queue.nbytes_for(64, steps_of_round(master, pages)),
        )


def tuned_pages_per_step(nbytes: int, most: int, master: Master, cost: ReadCost) -> int:
    """The pages per step for which rows admitted per second are most, all else being equal.

    `nbytes` are shared by disk buffer and window; the buffer may have `most` of them. The rows of
    a step are w ∝ b (nbytes − buffer(b)); what they cost each, beyond their share of the read, is
    the same for every b and decides nothing.
    """
    page, rows = _page_nbytes(master), master.num_rows / max(master.num_pages, 1)
    best, best_rate, pages = 1, 0.0, 1
    while pages <= master.num_pages:
        held = master.buffer_nbytes(pages)
        if held > most and pages > 1:
            break
        steps = -(-master.num_pages // pages)
        seconds = cost.of(pages * page) + pages * rows * _PROBE_SECONDS
        rate = max(nbytes - held, 1) / (steps * seconds)
        if rate > best_rate:
            best, best_rate = pages, rate
        pages += max(pages // 16, 1)
    return best


def steps_of_round(master: Master, pages_per_step: int) -> int:
    return max(-(-master.num_pages // pages_per_step), 1)


def _page_nbytes(master: Master) -> float:
    return max(master.data_nbytes / max(master.num_pages, 1), 1.0)


def _pages_within(nbytes: int, master: Master) -> int:
    return int(max(1, min(nbytes // _page_nbytes(master), master.num_pages)))


class MeshOperator(SemiStreamJoin):
    """The loop in steps; rows leave in the order and by the chunks in which they came."""

    schedule: Cyclic
    pages_leave_whole = False
    needs_whole_pages = True

    def __init__(
        self,
        plan: JoinPlan,
        master: Master,
        binding: Binding,
        clock: Clock,
        pages_and_sizing: tuple[int, Sizing],
        steps_per_chunk: int = 1,
    ) -> None:
        pages, sizing = pages_and_sizing
        steps = steps_of_round(master, pages)
        row = Window(binding.stream_schema, 1, 1).store.slot_nbytes
        self._queue = _Queue(sizing.free // (row + _POINTER), steps)
        super().__init__(
            plan,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=Cyclic(pages),
            window_bytes=sizing.free - self._queue.rows_nbytes,
        )
        self._steps, self._steps_per_chunk = steps, steps_per_chunk
        self._step = self._chunk_at = 0
        self._quota: int | None = None
        """Rows that the present chunk may still take; None before it is begun."""

    @property
    def steps_per_round(self) -> int:
        return self._steps

    def held_by_part(self) -> dict[str, int]:
        parts = super().held_by_part()
        parts["index"] += self._queue.nbytes
        return parts

    # -- rows come and go in chunks -----------------------------------------------------------

    def _admit_slice(self) -> None:
        part = self._slice
        assert part is not None
        if self._quota is None:
            self._begin_chunk()
        room = self.window.room(part.batch, part.misses[part.admitted :])
        room = min(room, self._queue.room)
        now = slice(part.admitted, part.admitted + min(self._quota or 0, room))
        if now.start == now.stop:
            if not len(self.window):
                raise BudgetError(
                    f"{self.plan.title}: a row does not fit the window of "
                    f"{format_bytes(self.window.limit)}. Raise the budget, or push smaller batches."
                )
            self._take_step()
            return
        slots = self.window.admit(part.batch, part.misses[now], part.pages[now], part.arrivals[now])
        self._queue.put(slots)
        self._quota = (self._quota or 0) - len(slots)
        part.admitted += len(slots)
        if part.admitted == len(part.misses):
            self._slice = None

    def _begin_chunk(self) -> None:
        """How many rows may come: all the room, shared with the chunks of the rest of the round."""
        self._free(self._queue.leave(self._step - self._steps))
        if len(self.window) and self._step - self._chunk_at < self._steps_per_chunk:
            self._quota = 0
            return
        self._chunk_at = self._step
        part = self._slice
        room = min(self.window.room(part.batch if part else None), self._queue.room)
        waiting = max(self._steps // self._steps_per_chunk - self._queue.chunks, 1)
        self._quota = -(-room // waiting)

    def _free(self, slots: Slots) -> None:
        if len(slots):
            self.window.free(slots)

    def _leave(self, slots: Slots) -> None:
        """Answered rows keep their places until they have met all of R."""
        self.window.store.link[slots] = NONE

    def _was_moved(self, moves: Moves | None) -> None:
        if moves is not None:
            self._queue.renumber(moves)

    def _read_down(self) -> bool:
        self._free(self._queue.leave(self._step - self._steps))
        if self.window.oldest() is None:
            self._free(self._queue.leave_all())
            self._quota = None
        return super()._read_down()

    # -- steps ------------------------------------------------------------------------------

    def _read_scheduled(self, wanted: int) -> bool:
        return self.window.oldest() is not None and self._take_step()

    def _take_step(self) -> bool:
        """Read the next pages, whether or not rows wait for them."""
        if not self._read_pages(self.schedule.next(self.window, self._now, 0, 0)):
            return False
        self.schedule.step(self.window)
        self._queue.close_chunk(self._step)
        self._step += 1
        self._quota = None
        return True

    def _work_to_empty(self) -> bool:
        if self._work_on_hand():
            return True
        if self._read_scheduled(0):
            return True
        self._free(self._queue.leave_all())
        self._quota = None
        return False

    def _go_over(self, changes: Changes) -> None:
        """Rows that are answered leave; those that wait begin a new round, all in one chunk."""
        super()._go_over(changes)
        slots = self.window.in_order()
        everyone = self._queue.leave_all()
        self._free(everyone[~np.isin(everyone, slots)])
        self._steps = steps_of_round(self.master, self.schedule.pages_per_step)
        self._step = self._chunk_at = 0
        self._quota = None
        self._queue.restart(self._steps)
        self._queue.put(slots)


class _Queue:
    """Slots of rows in order of arrival, and how many came at which step: a ring of each."""

    def __init__(self, rows: int, steps: int) -> None:
        self._slots = np.zeros(max(rows, 1), dtype=np.int32)
        self._first = self._length = 0
        self.restart(steps)

    def restart(self, steps: int) -> None:
        """Forget the chunks (not the rows); up to `steps` may follow."""
        self._came_at = np.zeros(steps + 1, dtype=np.int64)
        self._size = np.zeros(steps + 1, dtype=np.int32)
        self._first_chunk = self.chunks = self._open = 0

    @staticmethod
    def nbytes_for(rows: int, steps: int) -> int:
        return rows * _POINTER + (steps + 1) * 12

    @property
    def rows_nbytes(self) -> int:
        return int(self._slots.nbytes)

    @property
    def nbytes(self) -> int:
        return int(self._slots.nbytes + self._came_at.nbytes + self._size.nbytes)

    @property
    def room(self) -> int:
        return len(self._slots) - self._length

    def put(self, slots: Slots) -> None:
        self._slots[self._at(self._length, len(slots))] = slots
        self._length += len(slots)
        self._open += len(slots)

    def close_chunk(self, step: int) -> None:
        """The rows put since the last call came before this step; none is no chunk."""
        if self._open:
            at = (self._first_chunk + self.chunks) % len(self._size)
            self._came_at[at], self._size[at] = step, self._open
            self.chunks += 1
            self._open = 0

    def leave(self, step: int) -> Slots:
        """The rows of the chunks that came at or before this step."""
        count = 0
        while self.chunks and self._came_at[self._first_chunk] <= step:
            count += int(self._size[self._first_chunk])
            self._first_chunk = (self._first_chunk + 1) % len(self._size)
            self.chunks -= 1
        return self._take(count)

    def leave_all(self) -> Slots:
        self._first_chunk = self.chunks = self._open = 0
        return self._take(self._length)

    def renumber(self, moves: Moves) -> None:
        at = self._at(0, self._length)
        slots = self._slots[at]
        moves.apply(slots)
        self._slots[at] = slots

    def _take(self, count: int) -> Slots:
        slots = self._slots[self._at(0, count)]
        self._first = (self._first + count) % len(self._slots)
        self._length -= count
        return slots

    def _at(self, start: int, count: int) -> Slots:
        return (self._first + start + np.arange(count)) % len(self._slots)  # type: ignore[return-value]
