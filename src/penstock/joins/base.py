"""The one loop behind every join.

Every row that comes in is answered from the front stage or waits in the window; when the window is
full the schedule picks pages, and every row that waits for them is answered. All progress is kept
in the operator, none in the iterators that it hands out: an iterator may be dropped half way, or a
read may fail, and the next call goes on from there.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from penstock.admission import Admission
from penstock.budget import format_bytes
from penstock.errors import BudgetError, PagesMovedError, PenstockError, StateError
from penstock.fronts import TupleCache
from penstock.joins.answers import Answer, CacheHits, PageMatches, PageRows, Unmatchable
from penstock.joins.binding import Binding
from penstock.joins.by_keys import fetch_for_waiting, key_look_ups, waiting_keys
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.probing import probe
from penstock.joins.progress import OpenPages, Slice, matched_keys
from penstock.joins.shares import Shares
from penstock.joins.sizing import Sizing
from penstock.joins.waits import WaitLimit, arrivals_of
from penstock.keys import VALID, Int64s, Keys
from penstock.masters.base import Changes, Master, trusted
from penstock.masters.coarse_pages import CoarsePages
from penstock.rows import Moves, Slots
from penstock.schedules import InPageOrder, Schedule
from penstock.stats import Counters, JoinStats
from penstock.window import Window


class SemiStreamJoin(Shares):
    """A running join: push batches, flush at the end, read `stats` at any time."""

    pages_leave_whole = True
    """Whether the rows that wait for a page leave the window when it is read, all of them."""
    needs_whole_pages = False
    """Whether a page is read for more than the rows that wait for it."""
    reads_unasked = False
    """Whether pages are read that no row in the window waits for."""

    def __init__(
        self,
        plan: JoinPlan,
        master: Master,
        binding: Binding,
        clock: Clock,
        *,
        sizing: Sizing,
        schedule: Schedule,
        window_bytes: int,
        cache: TupleCache | None = None,
        admission: Admission | None = None,
    ) -> None:
        window = Window(
            binding.stream_schema, master.num_pages, window_bytes, together=self.pages_leave_whole
        )
        super().__init__(plan, master, binding, sizing, window)
        self.schedule = schedule
        self.cache, self.admission = cache, admission
        self._wait_limit = WaitLimit.parse(plan.max_wait, clock)
        self._counters = Counters()
        self._reads_before = master.reads
        self._now = 0
        self._answers: deque[Answer] = deque()
        self._open: OpenPages | None = None
        self._interrupted: list[weakref.ref[pa.RecordBatch]] = []
        self._reading = False
        self._broken: str | None = None
        self._fed = False
        names = binding.cached_schema(master).names
        self._cached_output = [names.index(n) for n in binding.columns]
        self._cached_key = [] if binding.meeting.exact else list(binding.master_key)
        self._version = master.version
        self._by_keys = key_look_ups(type(self), master, plan.title)

    def __repr__(self) -> str:
        return self.plan.describe(self)

    # -- the contract -----------------------------------------------------------------------

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Admit a batch, now; iterate for what it sets free.

        If a read failed while iterating, push the very same batch again (or call `flush`) to go on;
        its rows are not admitted twice. Once it was pushed again, or a flush has ended, the same
        object is a new batch. A batch larger than those before it counts as held from when the
        window has been read down for it.
        """
        self._require_usable()
        if not self._was_interrupted(batch):
            rows = self.binding.conform(batch)
            self._fit_hand(rows)
            self._hand.give(rows, None, outside=self._overfull)
            self._counters.rows_in += rows.num_rows
            self._fed = True
        return self._run(self._work_on_hand, batch)

    def advance(self, now: float | None = None) -> Iterator[pa.RecordBatch]:
        """Time passes without input: answer rows that are overdue.

        When nothing was pushed since the last call, the stream is idle, and one round of pages is
        read as well, so that an idle window drains.
        """
        self._require_usable()
        rounds = iter([not self._fed])
        self._fed = False
        self._wait_limit.tick(now)

        def work() -> bool:
            if self._work_on_hand():
                return True
            return next(rounds, False) and self._read_scheduled(len(self.window))

        return self._run(work)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Answer every row that waits; the join can be used again afterwards."""
        self._require_usable()

        def work() -> bool:
            if self._work_to_empty():
                return True
            self._interrupted.clear()
            return False

        return self._run(work)

    def waiting(self) -> pa.RecordBatch:
        """Rows that are not answered yet, oldest first, with the columns `_arrival` (rows admitted
        before it) and `_arrived_at` (clock). `restore` takes it.
        """
        self._require_usable()
        self._require_delivered("waiting")
        slots = self.window.in_order()
        parts = [self._wait_limit.dated(self.window.take(slots), self.window.arrivals(slots))]
        if self._slice is not None:
            left = slice(self._slice.admitted, None)
            rows = self._slice.batch.take(pa.array(self._slice.misses[left]))
            parts.append(self._wait_limit.dated(rows, self._slice.arrivals[left]))
        for rows, arrivals in self._hand.dated(self._now):
            parts.append(self._wait_limit.dated(rows, arrivals))
        return pa.concat_batches(parts)

    def restore(self, waiting: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take over what another operator's `waiting` gave; only before the first push.

        If a read failed while iterating, restore the very same batch again to go on.
        """
        self._require_usable()
        if self._was_interrupted(waiting):
            return self._run(self._work_on_hand, waiting)
        if self._now or len(self.window) or self._hand:
            raise StateError("restore only into a join that has taken no rows; build a new one.")
        arrivals, times = arrivals_of(waiting, self.binding.stream_schema)
        rows = self.binding.conform(waiting.select(self.binding.stream_schema.names))
        self._fit_hand(rows, restored=True)
        self._counters.rows_restored += rows.num_rows
        self._wait_limit.restore(arrivals, times)
        self._hand.give(rows, arrivals, outside=False)
        self._fed = True
        return self._run(self._work_on_hand, waiting)

    def refresh(self, changes: Changes | None) -> None:
        """The master may have changed: go over to its version, and drop stale cache entries.

        A join that missed a version takes it that anything has changed. Raises BudgetError when
        the new pages leave no room for a window: restore what waits with a larger budget. Where
        they are more than before, the next call first reads the window down to what is left.
        """
        if isinstance(self.master, CoarsePages):
            self.master.follow()
        known = trusted(changes, self._version, self.master.version)
        if known is not None:
            with self._whole():
                self._require_delivered("refresh")
                self._make_room_for_pages()
                self._go_over(known)

    def _go_over(self, changes: Changes) -> None:
        self._version = self.master.version
        self._open = None
        if self.cache is not None:
            if changes.ranges is None:
                self.cache.clear()
            else:
                codes, _ = self.cache.entries()
                self.cache.remove(codes[changes.touched(codes)])
        slots = self.window.in_order()
        pages = np.empty(len(slots), dtype=np.int64)
        for at in range(0, len(slots), self.sizing.slice_rows):
            part = slice(at, at + self.sizing.slice_rows)
            pages[part] = self.master.page_of(waiting_keys(self, slots[part]))
        self.window.refile(slots, pages, self.master.num_pages)
        self.schedule.reset()
        if self._slice is not None:
            self._slice.pages = self.master.page_of(
                self.binding.keys(self._slice.batch.take(pa.array(self._slice.misses)))
            )
        self._tidy()

    @property
    def stats(self) -> JoinStats:
        reads, before = self.master.reads, self._reads_before
        return self._counters.snapshot(
            reads.io_reads - before.io_reads, reads.bytes_read - before.bytes_read
        )

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return sum(self.held_by_part().values())

    def held_by_part(self) -> dict[str, int]:
        """Bytes held now, part by part; `scratch` is a formula, the rest is counted."""
        return {
            "index": self.master.index_nbytes + self.window.index_nbytes + self.schedule.nbytes,
            "window": self.window.nbytes,
            "cache": self.cache.nbytes if self.cache is not None else 0,
            "disk_buffer": self.disk_buffer,
            "in_hand": self._in_hand,
            "answers": sum(answer.nbytes for answer in self._answers),
            "scratch": self.sizing.scratch,
        }

    def check_invariants(self) -> None:
        """Raise if the operator contradicts itself; for tests, linear in the window."""
        self.window.check_invariants()
        if self.nbytes > self.plan.budget_bytes and not self._overfull:
            raise BudgetError(
                f"{self.nbytes} bytes held of a budget of {self.plan.budget_bytes}: "
                f"{self.held_by_part()}"
            )

    # -- iterating --------------------------------------------------------------------------

    def _run(
        self, work: Callable[[], bool], batch: pa.RecordBatch | None = None
    ) -> Iterator[pa.RecordBatch]:
        while True:
            with self._whole(batch):
                piece = self._next_piece(work)
            if piece is None:
                break
            yield piece
        with self._whole(batch):
            self._counters.held(self.held_by_part())
            self._tidy()

    @contextmanager
    def _whole(self, batch: pa.RecordBatch | None = None) -> Iterator[None]:
        """Between its units of work and while it reads, the operator is whole, and can go on after
        an error. Elsewhere only an accident can end it: then it must not be used again.
        """
        self._require_usable()
        try:
            yield
        except BaseException as error:
            if self._reading or isinstance(error, PenstockError):
                if batch is not None:
                    self._interrupted.append(weakref.ref(batch))
            else:
                self._broken = type(error).__name__
            raise
        finally:
            self._reading = False

    def _was_interrupted(self, batch: pa.RecordBatch) -> bool:
        """Whether a read failed while this batch was worked on; asked again, it is a new one."""
        marked = [known() for known in self._interrupted]
        self._interrupted = [weakref.ref(b) for b in marked if b is not None and b is not batch]
        return batch is not None and any(b is batch for b in marked)

    def _require_usable(self) -> None:
        if self._broken is not None:
            raise StateError(
                f"this join was ended by {self._broken} in the middle of its work, and what it "
                "holds may not be whole. Build a new one, and begin again from what was last saved."
            )

    def _next_piece(self, work: Callable[[], bool]) -> pa.RecordBatch | None:
        while True:
            while self._answers:
                first = self._answers[0]
                piece = first.next(self._piece_rows(first.widest, first.widest_partner))
                if piece is None:
                    self._answers.popleft()
                    continue
                self._counters.rows_out += piece.num_rows
                self._counters.held(
                    {**self.held_by_part(), "output": self.binding.output_layout.nbytes(piece)}
                )
                return piece
            if self.master.version != self._version:
                raise StateError(
                    f"the master went from version {self._version} to {self.master.version} and "
                    "this join was not told. Call join.refresh(master.refresh()) before the next "
                    "push."
                )
            try:
                if not work():
                    return None
            except PagesMovedError:
                self.refresh(self.master.refresh())

    # -- units of work: each leaves the operator whole, and says whether there was any ---------

    def _work_on_hand(self) -> bool:
        if self._answer_open_pages() or (self._overfull and self._read_down()):
            return True
        if self._lent:
            self._take_back()
        if self._slice is not None:
            self._clear_the_way()
            self._admit_slice()
            return True
        if not self._hand:
            return self._read_overdue(0)
        batch, known = self._hand.first().batch, self._hand.first().arrivals
        rows = min(batch.num_rows, self.sizing.slice_rows, self._wait_limit.rows or 2**62)
        if self._read_overdue(rows):
            return True
        arrivals = np.arange(self._now, self._now + rows) if known is None else known[:rows]
        self._take_in(batch.slice(0, rows), arrivals)
        self._hand.drop(rows)
        return True

    def _work_to_empty(self) -> bool:
        if self._work_on_hand():
            return True
        return bool(len(self.window)) and self._read_pages(self._next_to_empty())

    def _next_to_empty(self) -> Int64s:
        """Pages to read next when every row is to be answered."""
        return InPageOrder().next(self.window, self._now, len(self.window), self.pages_per_read)

    def _take_in(self, batch: pa.RecordBatch, arrivals: Int64s) -> None:
        """Answer what can be answered now; the rest of the rows are to be admitted."""
        if not batch.num_rows:
            return
        keys = self.binding.keys(batch)
        state = keys.state
        hits, heads, misses = probe(self.cache, self.binding, keys, batch)
        if len(misses):
            # Before anything else changes: a master that was closed raises here.
            self._begin_to_wait(batch, arrivals[misses], misses, keys.take(misses))
        self._now = int(arrivals[-1]) + 1
        self._wait_limit.admitted(self._now)
        if state is not None:
            bad = np.flatnonzero(state != VALID)
            self._counters.unmatched += len(bad)
            self._answers.append(Unmatchable(self.binding, batch, bad, state[bad]))
        if len(hits):
            self._counters.cache_hits += len(hits)
            assert self.cache is not None
            self._answers.append(
                CacheHits(self.binding, batch, hits, heads, self.cache, self._cached_output)
            )

    def _begin_to_wait(
        self, batch: pa.RecordBatch, arrivals: Int64s, misses: Int64s, keys: Keys
    ) -> None:
        """These rows of the batch, of these arrivals and keys, are to be filed."""
        pages, layout = self.master.page_of(keys), self.binding.stream_layout
        self._slice = Slice(batch, arrivals, misses, pages, layout)

    def _admit_slice(self) -> None:
        """File the slice's misses as far as there is room; read pages when there is none."""
        part = self._slice
        assert part is not None
        left = part.misses[part.admitted :]
        room = self.window.room(part.batch, left)
        if room == 0:
            if not self._read_scheduled(len(left)):
                raise BudgetError(
                    f"a row does not fit the window's {format_bytes(self.window.limit)} of the "
                    f"budget of {format_bytes(self.plan.budget_bytes)}. Restore what waits into a "
                    "join with a larger budget."
                )
            return
        now = slice(part.admitted, part.admitted + room)
        slots = self.window.admit(part.batch, part.misses[now], part.pages[now], part.arrivals[now])
        self._was_admitted(slots)
        part.admitted += len(slots)
        if part.admitted == len(part.misses):
            self._slice = None

    def _clear_the_way(self) -> None:
        """Give back the slots of rows that left where the rows to come need their bytes."""
        part, window = self._slice, self.window
        assert part is not None
        if window.crowded(part.batch, part.misses[part.admitted :]):
            self._was_moved(window.compact())

    def _was_admitted(self, slots: Slots) -> None:
        """For joins that keep an order of rows of their own."""

    def _read_scheduled(self, wanted: int) -> bool:
        if not len(self.window):
            return False
        return self._read_pages(
            self.schedule.next(self.window, self._now, wanted, self.pages_per_read)
        )

    def _read_overdue(self, coming: int) -> bool:
        """Read for rows that would wait too long if that many more rows were admitted."""
        oldest = self._wait_limit.oldest_allowed(self._now + coming)
        if oldest is None or not len(self.window):
            return False
        first = self.window.oldest()
        if first is None or first[1] >= oldest:
            return False
        return self._read_pages(self.window.older_than(oldest)[: self.pages_per_read])

    def _read_pages(self, pages: Int64s) -> bool:
        """Read pages and open them; nothing changes if the read raises."""
        if not len(pages):
            return False
        pages = np.sort(pages)
        rows = PageRows(self.binding, self.fetched(pages, for_waiting=True))
        self._counters.page_reads += len(pages)
        waiting = self.window.count[pages].astype(np.int64)
        self.schedule.was_read(pages, waiting, self.window, self._now)
        self._open = OpenPages(pages, rows, self.window)
        return True

    def fetched(self, pages: Int64s, *, for_waiting: bool = False) -> pa.Table:
        """What `fetch` gives, or what rows wait for; if it raises, the operator is as it was."""
        self._reading = True
        keyed = self._by_keys if for_waiting else None
        table = fetch_for_waiting(keyed, self, pages) if keyed else self.fetch(pages)
        self._reading = False
        return table

    def fetch(self, pages: Int64s) -> pa.Table:
        """What is read of R's rows on these pages: every read of a join goes through here."""
        return self.master.read(pages, self.binding.read_columns)

    def _answer_open_pages(self) -> bool:
        """Answer the next rows that wait for the pages in the disk buffer."""
        opened = self._open
        if opened is None:
            return False
        waiting = int(self.window.count[opened.pages].sum())
        if not waiting:
            self._open = None
            del opened
            self._pages_are_done()
            return True
        most = self._piece_rows(opened.widest, opened.rows.widest)
        slots = self.window.take_off(opened.pages, most)
        stream = self.window.take(slots)
        self._counters.waited(self._now - self.window.arrivals(slots))
        self._leave(slots)
        answer = PageMatches(self.binding, stream, self.binding.keys(stream), opened.rows)
        self._counters.rows_read_for += len(slots)
        self._counters.unmatched += answer.unmatched
        self._answers.append(answer)
        if self.cache is not None and opened.rows.clean:
            opened.count_matches(answer)
            if len(slots) == waiting:
                self._learn(opened)
        return True

    def _pages_are_done(self) -> None:
        """The disk buffer is free again."""

    def _leave(self, slots: Slots) -> None:
        """Rows were answered: here they leave the window at once."""
        self.window.free(slots)

    def _learn(self, opened: OpenPages) -> None:
        if self.admission is None or self.cache is None:
            return
        seen = matched_keys(opened, self.cache.store.schema.names)
        if len(seen):
            self.admission.learn(self.cache, seen)

    def _rows_on_their_way(self) -> bool:
        return any(answer.rows_left for answer in self._answers)

    def _was_moved(self, moves: Moves | None) -> None:
        """For joins that keep slots of their own."""

    def _require_delivered(self, what: str) -> None:
        if self._rows_on_their_way():
            raise StateError(
                f"{what}: answers are on their way out; iterate what push, advance or flush "
                "returned to its end first."
            )
