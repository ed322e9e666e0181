"""Rows whose key has no row in R yet: they wait beside the join, in the state, and are looked for
again until their time is over.

They lie in segments of their own, of rows that are looked for at the same time; the shard's account
says when that is. A visit reads those that are due and no others, a bounded piece at a time, and
keeps none in memory: whichever worker comes next needs only the state.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.copying import take
from penstock.joins import SemiStreamJoin
from penstock.joins.answers import Answer, PageMatches, PageRows, Unmatchable
from penstock.joins.binding import GAVE_UP, REASONS, Binding
from penstock.keys import NO_SUCH_ROW, VALID, Keys
from penstock.spark.enrichment import Enrichment
from penstock.spark.packing import pack, unpack
from penstock.spark.parts import SEGMENT_BYTES
from penstock.spark.retry_times import ARRIVED, Attempts, in_ms
from penstock.spark.segments import fitted
from penstock.spark.shard_state import Account, Retried, ShardState

_PIECE_SHARE = 48
"""Rows are gathered, and looked for, in pieces of at most this part of the budget."""
_LOOK_UP_SHARE = 12
"""And what a database needs to look them up is at most this part."""
_LEAST_ROWS = 64
_FEW = 12
"""Where more segments than this are due at once, the small ones are written together: others leave
one by one, each whole, when its rows' time is over."""

Batches = Iterator[pa.RecordBatch]
Mask = npt.NDArray[np.bool_]


def inner(enrichment: Enrichment) -> Enrichment:
    """The enrichment of the join within: it must tell why a row has no partner."""
    return replace(enrichment, on_miss="mark")


class Retries:
    """The rows of one shard that are retried, during one visit.

    With `attempts` the join is one of `inner`, on dated rows, and `binding` says what the user
    gets. Without, the join is the user's own, and rows that an earlier run retried leave now.
    """

    def __init__(
        self,
        join: SemiStreamJoin,
        binding: Binding,
        attempts: Attempts | None,
        state: ShardState,
        stamped: Callable[[], int],
    ) -> None:
        self._join, self._binding, self._attempts = join, binding, attempts
        self._state, self._stamped = state, stamped
        budget = join.plan.budget_bytes
        self._piece = min(budget // _PIECE_SHARE, SEGMENT_BYTES)
        self._look_up_rows = _rows_at_a_time(join, self._piece)
        self._stored: list[Retried] = []
        self._fresh: dict[int, list[pa.RecordBatch]] = {}
        self._fresh_bytes = self._now = 0
        self._rows_out = self._unmatched = self._looked_up = self._look_ups = self._most_held = 0

    def begin(self, account: Account | None, now: float) -> None:
        """The visit's time, and what the state has."""
        self._now = in_ms(now)
        self._stored = list(account.retried) if account is not None else []

    # -- what the join puts out ---------------------------------------------------------------

    def sifted(self, batches: Batches) -> Batches:
        """Rows that are not to be retried, as the user wants them; the others stay here."""
        for batch in batches:
            left = batch if self._attempts is None else self._sift(batch)
            self._rows_out += left.num_rows
            if left.num_rows:
                yield left

    def _sift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        reasons = batch.column(batch.num_columns - 1)
        if reasons.null_count < len(reasons):
            missing = pc.fill_null(pc.equal(reasons, REASONS[NO_SUCH_ROW]), False)
            kept = self._keep(batch, np.flatnonzero(missing.to_numpy(zero_copy_only=False)))
            leaves = np.ones(batch.num_rows, dtype=np.bool_)
            leaves[kept] = False
            if self._binding.on_miss == "drop":
                leaves &= reasons.is_null().to_numpy(zero_copy_only=False)
            if not leaves.all():
                batch = batch.filter(pa.array(leaves))
        columns = batch.columns
        del columns[len(self._binding.stream_schema)]
        if self._binding.on_miss != "mark":
            columns.pop()
        return pa.RecordBatch.from_arrays(columns, schema=self._binding.output_schema)

    def _keep(self, batch: pa.RecordBatch, at: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Keep those of these rows that may find a partner yet; returns which they are."""
        assert self._attempts is not None
        width = len(self._binding.stream_schema) + 1
        rows = take(batch.select(list(range(width))), at)
        young = ~self._attempts.over(_arrived(rows), self._now)
        # A value that the master's type cannot hold will never have a row.
        state = self._binding.keys(rows).state
        chosen = np.flatnonzero(young if state is None else young & (state == VALID))
        self._add(rows if len(chosen) == len(at) else take(rows, chosen))
        self._unmatched -= len(chosen)
        return at[chosen]

    # -- attempts -----------------------------------------------------------------------------

    def attempt(self) -> Batches:
        """Look for the rows that are due; iterate for those that leave."""
        due = [one for one in self._stored if self._due(one) <= self._now]
        self._stored = [one for one in self._stored if self._due(one) > self._now]
        for group in self._groups(due):
            yield from self._attempt(group, crowded=len(due) > _FEW)

    def _due(self, one: Retried) -> int:
        return 0 if self._attempts is None else self._attempts.due(one.due, one.oldest)

    def _groups(self, due: list[Retried]) -> Iterator[list[Retried]]:
        """Segments that are read together."""
        group: list[Retried] = []
        size = 0
        for one in due:
            if group and size + one.nbytes > self._piece:
                yield group
                group, size = [], 0
            group.append(one)
            size += one.nbytes
        if group:
            yield group

    def _attempt(self, group: list[Retried], *, crowded: bool) -> Batches:
        rows = pa.concat_batches([self._read(one) for one in group])
        found = yield from self._look_up(rows)
        over = ~found
        if self._attempts is not None:
            over &= self._attempts.over(_arrived(rows), self._now)
        yield from self._give_up(rows, over)
        kept, at = ~(found | over), 0
        for one in group:
            those = slice(at, at + one.rows)
            at += one.rows
            self._store_again(one, rows[those], kept[those], crowded=crowded)

    def _read(self, one: Retried) -> pa.RecordBatch:
        (rows,) = unpack(self._state.read_segment(one.key))
        stream = fitted(rows.select(list(range(rows.num_columns - 1))), self._binding.stream_schema)
        return stream.append_column(ARRIVED, rows.column(rows.num_columns - 1))

    def _look_up(self, rows: pa.RecordBatch) -> Generator[pa.RecordBatch, None, Mask]:
        """Put out the rows that have partners now; returns which these are."""
        binding = self._binding
        stream, found = rows.select(binding.stream_schema.names), np.zeros(rows.num_rows, np.bool_)
        for start in range(0, rows.num_rows, self._look_up_rows):
            part = stream.slice(start, self._look_up_rows)
            keys = binding.keys(part)
            partners = self._join.master.look_up(keys, binding.read_columns)
            self._look_ups += 1
            self._looked_up += part.num_rows
            self._hold(rows.nbytes + partners.nbytes)
            page = PageRows(binding, pa.Table.from_batches([partners]))
            answer = PageMatches(binding, part, keys, page)
            mine = answer.count > 0
            if keys.state is not None:  # the stream's key may be another since they came
                mine &= keys.state == VALID
            found[start : start + part.num_rows] = mine
            if mine.any():
                self._no_longer_missing(keys, mine)
                if not mine.all():
                    hits = np.flatnonzero(mine)
                    answer = PageMatches(binding, take(part, hits), keys.take(hits), page)
                yield from self._put_out(answer)
        return found

    def _no_longer_missing(self, keys: Keys, found: Mask) -> None:
        """A join that remembers what R had not must not answer others from memory."""
        missing: Any = getattr(self._join, "missing", None)
        if missing is not None and len(missing):
            missing.remove(np.unique(keys.codes[found]))

    def _give_up(self, rows: pa.RecordBatch, over: Mask) -> Batches:
        at = np.flatnonzero(over)
        if not len(at):
            return
        self._unmatched += len(at)
        reasons = np.full(len(at), GAVE_UP, dtype=np.uint8)
        stream = rows.select(self._binding.stream_schema.names)
        yield from self._put_out(Unmatchable(self._binding, stream, at, reasons))

    def _put_out(self, answer: Answer) -> Batches:
        most = self._join._piece_rows(answer.widest, answer.widest_partner)
        while (piece := answer.next(most)) is not None:
            self._rows_out += piece.num_rows
            yield piece

    # -- the state ----------------------------------------------------------------------------

    def _store_again(
        self, one: Retried, rows: pa.RecordBatch, kept: Mask, *, crowded: bool
    ) -> None:
        """These rows of a segment wait on: where they are, or with those of other small ones."""
        left = rows if kept.all() else take(rows, np.flatnonzero(kept))
        if left.num_rows and not (crowded and 2 * left.nbytes < self._piece):
            assert self._attempts is not None
            due = self._attempts.next(_arrived(left), self._now)
            if due.min() == due.max():
                if left is not rows:
                    self._state.write_segment(one.key, pack([left], left.schema))
                self._stored.append(_told(one.key, left, int(due[0])))
                return
        self._state.remove_segment(one.key)
        if left.num_rows:
            self._add(left)

    def _add(self, rows: pa.RecordBatch) -> None:
        """Rows to be stored, by when they are due."""
        assert self._attempts is not None
        due = self._attempts.next(_arrived(rows), self._now)
        for moment in np.unique(due).tolist():
            at = np.flatnonzero(due == moment)
            some = rows if len(at) == rows.num_rows else take(rows, at)
            self._fresh.setdefault(moment, []).append(some)
            self._fresh_bytes += some.nbytes
        self._hold(0)
        if self._fresh_bytes >= self._piece:
            self._store()

    def _store(self) -> None:
        fresh, self._fresh, self._fresh_bytes = self._fresh, {}, 0
        for due, batches in fresh.items():
            rows, key = pa.concat_batches(batches), self._stamped()
            self._state.write_segment(key, pack([rows], rows.schema))
            self._stored.append(_told(key, rows, due))

    def _hold(self, nbytes: int) -> None:
        self._most_held = max(self._most_held, self._fresh_bytes + nbytes)

    def end(self) -> tuple[Retried, ...]:
        """Store what came, and tell all that is stored."""
        self._store()
        return tuple(self._stored)

    def next_due(self) -> int | None:
        """When the first of the stored rows are due."""
        return min((self._due(one) for one in self._stored), default=None)

    def correct(self, values: dict[str, int], oldest: float | None) -> float | None:
        """Make the join's metrics those of the visit; returns when the oldest row arrived, if it
        was `oldest` for the join.
        """
        values["rowsOut"] = self._rows_out
        values["unmatchedCount"] += self._unmatched
        values["loadCount"] += self._look_ups
        values["rowsReadFor"] += self._looked_up
        values["heldBytes"] += self._most_held
        values["rowsWaiting"] += sum(one.rows for one in self._stored)
        moments = [one.oldest / 1000 for one in self._stored]
        return min(moments if oldest is None else [*moments, oldest], default=None)


def _told(key: int, rows: pa.RecordBatch, due: int) -> Retried:
    return Retried(key, rows.num_rows, rows.nbytes, due, int(_arrived(rows).min()))


def _arrived(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    arrived: npt.NDArray[np.int64] = rows.column(rows.num_columns - 1).to_numpy()
    return arrived


def _rows_at_a_time(join: SemiStreamJoin, nbytes: int) -> int:
    """Rows whose partners have about so many bytes, as far as R's rows are of a size."""
    rows = max(nbytes // max(join.sizing.master_row, 1), _LEAST_ROWS)
    room = getattr(join.master, "look_up_nbytes", None)
    most = join.plan.budget_bytes // _LOOK_UP_SHARE
    while room is not None and rows > _LEAST_ROWS and (room(rows) or 0) > most:
        rows //= 2
    return rows
