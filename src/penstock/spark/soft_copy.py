"""The rows of one shard that wait, in the worker's operator: a soft copy of Spark's state.

The state is the truth. The copy is up to date when it has the token of the shard's last step. If it
has that of a step shortly before, it catches up: rows that were answered since go, rows that came
since are taken up. Else the operator forgets its rows, keeps its cache, and takes up what the
state has. A worker that serves several shards holds one of them at a time, so that its budget is
one operator's.

A step costs by the rows that come and go, not by those that wait.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.copying import take
from penstock.joins import SemiStreamJoin
from penstock.joins.resuming import Movements, can_forget, forget, logical_time, pass_time, resume
from penstock.keys import Int64s
from penstock.spark.at_once import in_pieces
from penstock.spark.draining import NextTimer
from penstock.spark.parts import SEGMENT_BYTES, Part, Parts
from penstock.spark.retry_times import dated, in_ms, undated_schema
from penstock.spark.segments import Segment, fitted, joined_times, pack_numbers, unpack_numbers
from penstock.spark.shard_state import Account, Retried, ShardState, Stored
from penstock.spark.spreading import crowded_pages, pages_read_early, read_pages

_PIECE_SHARE = 16
"""Rows are pushed and taken up in pieces of at most this part of the budget."""

_STEPS_BEHIND = 16
"""A copy that is more steps behind takes all rows up anew."""
_NONE: Int64s = np.empty(0, dtype=np.int64)

Batches = Iterator[pa.RecordBatch]


class StepClock:
    """The clock of an operator that works in steps: it stands still within each.

    A shard's time never goes back. Where the clock was set back, or another worker's is behind,
    the shard's time is from then on so far `ahead` of it: it stands for a step, and goes on.
    While rows are taken up again the clock shows when they arrived.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.shown = clock()
        self.ahead = 0.0

    def __call__(self) -> float:
        return self.shown

    def begin_step(self, at_least: float = 0.0, reached: float = 0.0, ahead: float = 0.0) -> float:
        """A new step begins: now, or later where Spark's own clock says so.

        `reached` is the time of the shard's last step, `ahead` what its time was ahead by.
        """
        clock = max(self._clock(), at_least)
        self.ahead = max(ahead, reached - clock)
        self.shown = clock + self.ahead
        return self.shown


class SoftCopy:
    """Of one shard at a time: which rows the operator's window has, by their numbers."""

    def __init__(self, join: SemiStreamJoin, clock: StepClock) -> None:
        self.join, self.clock = join, clock
        within = join.binding.stream_schema
        self.stream_schema = undated_schema(within)
        self._dated = len(self.stream_schema) < len(within)
        """Whether the join is given rows with the time of their arrival."""
        self._moved = Movements(join)
        self._shard: int | None = None
        self._account = Account()
        self._parts = Parts()
        self._shift = 0
        """What a row's number lacks to its arrival in the operator."""
        self._fresh: list[tuple[pa.RecordBatch, Int64s]] = []
        self._fresh_bytes = 0
        self._stamp = 0
        self._interval = 0.0
        """Seconds since the shard's last step, where rows waited then."""
        self._whole = True

    @property
    def nbytes(self) -> int:
        """Bytes held beside the operator."""
        return self._parts.nbytes + self._fresh_bytes

    def usable(self, shard: int, account: Account | None) -> bool:
        """Whether this operator can serve the shard: as it is, or by taking up other rows."""
        return self._whole and (
            self._is_current(shard, account) or not len(self.join.window) or can_forget(self.join)
        )

    def _is_current(self, shard: int, account: Account | None) -> bool:
        if account is None:
            return not len(self._parts)
        return self._shard == shard and self._account.token == account.token

    def begin_step(self, account: Account | None, at_least: float) -> None:
        """It is a new step's time, which is not before the last one's."""
        last = account or Account()
        self.clock.begin_step(at_least, last.time, last.ahead)
        self._interval = self.clock.shown - last.time if last.time else 0.0

    def begin(self, shard: int, account: Account | None, state: ShardState) -> Batches:
        """Hold the rows of this shard; iterate for those that the cache can answer by now."""
        current = self._is_current(shard, account)
        had, self._account = self._account, account or Account()
        behind = self._shard == shard and had.token in self._account.before
        self._whole, self._shard = False, shard
        self._stamp = self._account.stamp
        if behind and can_forget(self.join):
            yield from self._catch_up(had, state)
        elif not current:
            yield from self._take_up(state)
        elif account is None:
            self._shift = 0

    def _take_up(self, state: ShardState) -> Batches:
        """Hold the rows that the state has, and no others."""
        account, join = self._account, self.join
        forget(join)
        self._moved.taken()
        self._parts, self._shift = Parts(), 0
        answered = self._answered_since(0, state)
        for stored in account.segments:
            segment = Segment.unpacked(state.read_segment(stored.key))
            if not len(self._parts):
                # The operator's logical time goes on from where it is.
                self._shift = logical_time(join) - int(segment.numbers[0])
            part = self._stored(stored, segment, answered)
            yield from self._resume(segment.only(~part.gone))
        self._took_up()

    def _catch_up(self, had: Account, state: ShardState) -> Batches:
        """Let go of the rows that were answered since an earlier step; take up those that came."""
        before, known = self._parts, dict[int, Part]()
        answered = self._answered_since(had.stamp, state)
        gone, moved = [_NONE], [_NONE]
        for stored in self._account.segments:
            part = before.taken(stored.key, stored.written)
            if part is not None:
                gone.append(part.answer(answered[part.among(answered)]))
                known[stored.key] = part
            elif stored.written > stored.key:
                # Folded since: rows of several segments, of which some may be known.
                segment = Segment.unpacked(state.read_segment(stored.key))
                part = _part(stored, segment, answered)
                moved.append(part.numbers())
                known[stored.key] = part
        left = np.concatenate([_NONE, *(part.numbers() for _, part in before.items())])
        gone.append(np.setdiff1d(left, np.concatenate(moved), assume_unique=True))
        if not forget(self.join, np.sort(np.concatenate(gone)) + self._shift):
            yield from self._take_up(state)
            return
        self._parts = Parts()
        for stored in self._account.segments:
            part = known.get(stored.key)
            if part is not None and part.last < had.arrived:
                self._parts.add(stored.key, part)
                continue
            segment = Segment.unpacked(state.read_segment(stored.key))
            part = self._stored(stored, segment, answered)
            yield from self._resume(segment.only(~part.gone & (segment.numbers >= had.arrived)))
        self._took_up()

    def _answered_since(self, stamp: int, state: ShardState) -> Int64s:
        notes = [n for n in self._account.notes if n > stamp]
        return np.sort(
            np.concatenate([_NONE, *(unpack_numbers(state.read_answered(n)) for n in notes)])
        )

    def _stored(self, stored: Stored, segment: Segment, answered: Int64s) -> Part:
        part = _part(stored, segment, answered)
        self._parts.add(stored.key, part)
        return part

    def _took_up(self) -> None:
        # Numbers are never given twice, also where the last rows to arrive were answered.
        pass_time(self.join, self._account.arrived + self._shift)

    def _given(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the join takes them; the clock shows when they arrived."""
        return dated(piece, in_ms(self.clock.shown)) if self._dated else piece

    def _resume(self, segment: Segment) -> Batches:
        rows, done, now = fitted(segment.rows, self.stream_schema), 0, self.clock.shown
        most = self.join.plan.budget_bytes // _PIECE_SHARE
        for at, end in segment.times:
            until = int(np.searchsorted(segment.numbers, end))
            if until == done:
                continue
            self.clock.shown = min(at, now)
            for piece in in_pieces(rows.slice(done, until - done), most):
                numbers = segment.numbers[done : done + piece.num_rows]
                yield from resume(self.join, self._given(piece), numbers + self._shift)
                begun, ceased = self._moved.taken()
                # What the cache has by now did not begin to wait again.
                self._parts.answer(np.setdiff1d(numbers, begun - self._shift, assume_unique=True))
                self._parts.answer(ceased - self._shift)
                done += piece.num_rows
        self.clock.shown = now

    def push(self, batch: pa.RecordBatch, state: ShardState) -> Batches:
        """Rows come in; what they set free comes out."""
        for piece in in_pieces(batch, self.join.plan.budget_bytes // _PIECE_SHARE):
            first = logical_time(self.join)
            yield from self.join.push(self._given(piece))
            begun, ceased = self._moved.taken()
            if len(begun):
                rows = take(piece, begun - first)
                self._fresh.append((rows, begun - self._shift))
                self._fresh_bytes += rows.nbytes
            self._cease(ceased)
            if self._fresh_bytes >= SEGMENT_BYTES:
                self._store(state)

    def read_early(self) -> Batches:
        """Read some pages before they are due, where many would be due at once."""
        pages = pages_read_early(self.join, self.clock.shown, self._interval)
        yield from read_pages(self.join, pages)
        self._cease(self._moved.taken()[1])

    def flush(self) -> Batches:
        """Every row is answered: by reading their page where many share it."""
        yield from read_pages(self.join, crowded_pages(self.join))
        yield from self.join.flush()
        self._cease(self._moved.taken()[1])

    def _cease(self, arrivals: Int64s) -> None:
        """Rows of these arrivals wait no longer."""
        numbers = arrivals - self._shift
        if self._fresh and len(numbers):
            split = int(np.searchsorted(numbers, self._fresh[0][1][0]))
            numbers, left = numbers[:split], numbers[split:]
            if len(left):
                self._fresh = [_without(rows, those, left) for rows, those in self._fresh]
                self._fresh = [(rows, those) for rows, those in self._fresh if len(those)]
        self._parts.answer(numbers)

    def _store(self, state: ShardState) -> None:
        """Store the rows that came and wait."""
        fresh, self._fresh, self._fresh_bytes = self._fresh, [], 0
        if not fresh:
            return
        self._stamp += 1
        rows = pa.concat_batches([rows for rows, _ in fresh])
        numbers = np.concatenate([those for _, those in fresh])
        end = logical_time(self.join) - self._shift
        segment = Segment(rows, numbers, ((self.clock.shown, end),))
        state.write_segment(self._stamp, segment.packed())
        self._parts.add(self._stamp, Part.of(segment, self._stamp))

    def stamped(self) -> int:
        """The stamp of something that is written beside what is known here."""
        self._stamp += 1
        return self._stamp

    def end(
        self,
        state: ShardState,
        timer: NextTimer,
        expired: int | None = None,
        retried: Sequence[Retried] = (),
        due: int | None = None,
    ) -> None:
        """Write down what this step did; `timer` is told the oldest row's time of arrival.

        The operator must have put out all that it had to. Spark itself removes the timer that
        `expired`. Rows that are `retried`, the first at `due`, are stored already.
        """
        before = self._account
        if before.timer == expired:
            before = before.but(timer=None)
        self._store(state)
        for key in self._parts.empty():
            state.remove_segment(key)
            self._parts.remove(key)
        if len(self._parts) or retried:
            self._fold(state)
            self._write(before, state, timer, tuple(retried), due)
        else:
            if before.token or self._stamp > before.stamp:
                state.set_timer(before.timer, None)
                state.clear()
            self._account = Account()
        self._whole = True

    def _fold(self, state: ShardState) -> None:
        """Write what is left of sparse segments together."""
        for group in self._parts.to_fold():
            read = [Segment.unpacked(state.read_segment(key)) for key in group]
            kept = [
                segment.only(~self._parts[key].gone)
                for key, segment in zip(group, read, strict=True)
            ]
            folded = Segment(
                pa.concat_batches([fitted(segment.rows, self.stream_schema) for segment in kept]),
                np.concatenate([segment.numbers for segment in kept]),
                joined_times([(segment.times, segment.numbers) for segment in kept]),
            )
            self._stamp += 1
            state.write_segment(group[-1], folded.packed())
            for key in group[:-1]:
                state.remove_segment(key)
                self._parts.remove(key)
            self._parts.replace(group[-1], Part.of(folded, self._stamp))

    def _write(
        self,
        before: Account,
        state: ShardState,
        timer: NextTimer,
        retried: tuple[Retried, ...],
        due: int | None,
    ) -> None:
        kept, answered = list(before.notes), self._parts.answers()
        if len(answered):
            self._stamp += 1
            state.write_answered(self._stamp, pack_numbers(answered))
            kept.append(self._stamp)
        # A note is of use while a segment is there that was written before it.
        written = (part.written for _, part in self._parts.items())
        earliest = min(written, default=self._stamp + 1)
        for stamp in [stamp for stamp in kept if stamp < earliest]:
            state.remove_answered(stamp)
            kept.remove(stamp)
        oldest, clock = self.oldest(), self.clock
        wanted = timer(
            None if oldest is None else oldest - clock.ahead,
            None if due is None else due - in_ms(clock.ahead),
        )
        state.set_timer(before.timer, wanted)
        stored = [Stored(key, part.written, part.rows) for key, part in self._parts.items()]
        self._account = Account(
            self._stamp,
            secrets.token_hex(8),
            logical_time(self.join) - self._shift,
            wanted,
            tuple(stored),
            tuple(kept),
            clock.shown,
            clock.ahead,
            (*before.before, before.token)[-_STEPS_BEHIND:] if before.token else (),
            retried=retried,
        )
        state.write_account(self._account)

    def oldest(self) -> float | None:
        """When the row that has waited longest arrived."""
        found = self.join.window.oldest()
        return None if found is None else self._parts.time_of(found[1] - self._shift)


def _part(stored: Stored, segment: Segment, answered: Int64s) -> Part:
    """What is known of a segment of which these rows, among others, were answered."""
    part = Part.of(segment, stored.written)
    part.answer(answered[part.among(answered)])
    return part


def _without(rows: pa.RecordBatch, numbers: Int64s, left: Int64s) -> tuple[pa.RecordBatch, Int64s]:
    stays = np.isin(numbers, left, assume_unique=True, invert=True)
    if stays.all():
        return rows, numbers
    return take(rows, np.flatnonzero(stays)), numbers[stays]
