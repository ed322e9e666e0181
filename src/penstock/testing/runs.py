"""A join under watch: whatever is called, the promises that always hold are checked on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from penstock.errors import BudgetError, MasterError
from penstock.joins.base import SemiStreamJoin
from penstock.testing.oracle import Expected, assert_same_rows
from penstock.testing.tables import SERIAL

_ATTEMPTS = 200
"""Failed reads in a row after which a call counts as stuck."""
_STUCK = 100_000
"""Pieces without a row after which an iterator counts as endless."""


class Run:
    """Calls a join, keeps what it puts out, and makes a call again when a read failed.

    After every piece `nbytes` with that piece is within the budget, and the parts add up to it;
    after every call the join's own invariants hold.
    """

    def __init__(self, join: SemiStreamJoin) -> None:
        self.join = join
        self.out: list[pa.RecordBatch] = []
        self.failures = 0
        """Reads that failed on the way."""

    # -- calls ------------------------------------------------------------------------------

    def push(self, batch: pa.RecordBatch) -> Run:
        """Push a batch; in halves when the budget does not hold it."""
        try:
            return self._whole(lambda: self.join.push(batch))
        except BudgetError:
            half = batch.num_rows // 2
            if not half:
                raise
            return self.push(batch.slice(0, half)).push(batch.slice(half))

    def push_all(self, batches: Iterable[pa.RecordBatch]) -> Run:
        for batch in batches:
            self.push(batch)
        return self

    def advance(self, now: float | None = None) -> Run:
        return self._whole(lambda: self.join.advance(now))

    def flush(self) -> Run:
        return self._whole(self.join.flush)

    def restore(self, waiting: pa.RecordBatch) -> Run:
        return self._whole(lambda: self.join.restore(waiting))

    def take(self, pieces: Iterator[pa.RecordBatch], most: int | None = None) -> int:
        """Iterate, at most so many pieces; returns how many there were. Failed reads raise."""
        taken = empty = 0
        while most is None or taken < most:
            piece = next(pieces, None)
            if piece is None:
                break
            self._note(piece)
            taken += 1
            empty = 0 if piece.num_rows else empty + 1
            assert empty < _STUCK, f"{empty} pieces without a row: the iterator does not end"
        return taken

    def try_take(self, pieces: Iterator[pa.RecordBatch], most: int | None = None) -> int:
        """The same, but a failed read ends it: the iterator is abandoned."""
        before = len(self.out)
        try:
            return self.take(pieces, most)
        except MasterError:
            self.failures += 1
            return len(self.out) - before

    def _whole(self, call: Callable[[], Iterator[pa.RecordBatch]]) -> Run:
        for _ in range(_ATTEMPTS):
            try:
                self.take(call())
            except MasterError:
                self.failures += 1
                self.check_bytes()
                continue
            self.check_bytes()
            self.join.check_invariants()
            return self
        raise AssertionError(f"{_ATTEMPTS} calls in a row failed; a call made again goes nowhere")

    def _note(self, piece: pa.RecordBatch) -> None:
        wanted = self.join.binding.output_schema
        assert piece.schema.equals(wanted), f"a piece has the columns {piece.schema}, not {wanted}"
        self.check_bytes(piece)
        self.out.append(piece)

    # -- what always holds ------------------------------------------------------------------

    def check_bytes(self, piece: pa.RecordBatch | None = None) -> None:
        """Bytes held, by part and in sum, are within the budget."""
        parts, total = self.join.held_by_part(), self.join.nbytes
        assert min(parts.values()) >= 0, f"a part holds less than nothing: {parts}"
        assert sum(parts.values()) == total, f"nbytes is {total}, its parts are {parts}"
        output = piece.nbytes if piece is not None else 0
        budget = self.join.plan.budget_bytes
        assert total + output <= budget, (
            f"{total} bytes held + {output} put out > budget {budget}: {parts}"
        )

    @property
    def rows_out(self) -> int:
        return sum(piece.num_rows for piece in self.out)

    def serials(self) -> Counter[int]:
        """How often each stream row was put out."""
        found: Counter[int] = Counter()
        for piece in self.out:
            found.update(piece.column(SERIAL).to_pylist())
        return found

    def check_rows(self, expected: Expected, what: str = "the join") -> None:
        """All that was put out equals the plain join, and the counters say the same."""
        assert_same_rows(self.out, expected.rows, what)
        stats = self.join.stats
        assert stats.rows_out == self.rows_out, (
            f"stats.rows_out is {stats.rows_out}, {self.rows_out} rows were put out"
        )
