"""A state machine that calls a join in any order: needs Hypothesis, which Penstock does not.

Rows are pushed and iterated to the end, half way or not at all; time passes; reads fail; R changes;
the operator is lost and another takes over what waited. In the end every row has come out once,
with the partners that it had in the version of R in which it was answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.errors import BudgetError
from penstock.joins.plan import JoinPlan
from penstock.testing.cases import ROOMY, SNUG, Case, MakeMaster
from penstock.testing.crippled import CrippledMaster, never
from penstock.testing.key_kinds import KEY_KINDS, Key, KeyKind, zipf_ranks
from penstock.testing.oracle import Rows, assert_same_rows, plain_join
from penstock.testing.runs import Run
from penstock.testing.tables import SERIAL, Tables, master_of, stream_of

_KEYS = 60
_SPARES = (SNUG, 8 * SNUG, ROOMY)


def join_machine(
    plan: JoinPlan, make_master: MakeMaster, kind: KeyKind | str = "int64"
) -> type[JoinMachine]:
    """A machine for this plan; its `TestCase` is what unittest and pytest run.

    >>> import penstock
    >>> def make_master(table, key):
    ...     return penstock.MemoryMaster(table, key, page_rows=10)
    >>> join_machine(penstock.joins.RootJoin(), make_master).__name__
    'RootJoinMachine'
    """
    known = KEY_KINDS[kind] if isinstance(kind, str) else kind
    name = f"{type(plan).__name__}Machine"
    return type(name, (JoinMachine,), {"case": Case(plan, make_master, known)})


class JoinMachine(RuleBasedStateMachine):
    """Rows by serial number, versions of R by number, and which was answered in which."""

    case: Case

    @initialize(spare=st.sampled_from(_SPARES), changed=st.integers(0, 5))
    def begin(self, spare: int, changed: int) -> None:
        self.here = replace(self.case)
        self.known = self.case.kind.keys(_KEYS)
        self.versions: list[pa.Table] = [self._version(changed)]
        self.sent: list[Key | None] = []
        self.answered_in: dict[int, int] = {}
        self.runs: list[Run] = []
        self.seen = 0
        self.master = CrippledMaster(self._make(self.versions[0]), reuses_buffer=True)
        self._start(spare)

    # -- what may happen --------------------------------------------------------------------

    @rule(
        rows=st.integers(0, 60),
        seed=st.integers(0, 99),
        skew=st.sampled_from([0.0, 1.5]),
        pieces=st.sampled_from([None, None, None, 0, 1, 3]),
    )
    def push(self, rows: int, seed: int, skew: float, pieces: int | None) -> None:
        """Push rows of random keys (the rarest are null), and iterate so many pieces or all."""
        ranks = zipf_ranks(np.random.default_rng(seed), rows, _KEYS + 2, skew)
        chosen = [self.known[k] if k < len(self.known) else None for k in ranks.tolist()]
        batch = self._batch(chosen)
        self.sent += chosen
        try:
            answers = self.run.join.push(batch)
        except BudgetError:
            # Too much is in hand: what was pushed has to be worked on first.
            self.run.advance()
            answers = self.run.join.push(batch)
        if pieces is not None:
            self.run.try_take(answers, most=pieces)
            return
        failed = self.run.failures
        self.run.try_take(answers)
        if self.run.failures > failed:
            self.run.push(batch)

    @rule(seconds=st.floats(0, 20))
    def advance(self, seconds: float) -> None:
        self.here.clock.advance(seconds)
        self.run.advance()

    @rule()
    def flush(self) -> None:
        self.run.flush()
        assert self.run.join.waiting().num_rows == 0

    @rule(reads=st.integers(1, 3), short=st.booleans())
    def next_reads_fail(self, reads: int, short: bool) -> None:
        last = self.master.read_calls + reads

        def wrong(number: int) -> bool:
            return number <= last

        self.master.failing, self.master.short = (never, wrong) if short else (wrong, never)

    @rule(changed=st.integers(0, 5))
    def change_master(self, changed: int) -> None:
        """R changes; what was decided before is delivered first."""
        self.run.advance()
        self._note_answers()
        self.versions.append(self._version(changed))
        self.master.change_to(self._make(self.versions[-1]))
        self.run.join.refresh(self.master.refresh())

    @rule(spare=st.sampled_from(_SPARES))
    def lose_the_operator(self, spare: int) -> None:
        """The operator is gone; another with another budget takes over what waited."""
        self.run.advance()
        self._note_answers()
        waiting = self.run.join.waiting()
        self._start(max(spare, 4 * waiting.nbytes))
        self.run.restore(waiting)

    # -- what always holds ------------------------------------------------------------------

    @invariant()
    def bytes_are_within_the_budget(self) -> None:
        self.run.check_bytes()
        self.run.join.check_invariants()

    @invariant()
    def every_row_is_out_or_waits(self) -> None:
        self._note_answers()
        limit = self.case.plan.max_wait
        if isinstance(limit, int):
            assert self.run.join.stats.wait_rows.longest <= limit

    def teardown(self) -> None:
        if not hasattr(self, "runs"):
            return
        self.run.flush()
        self._note_answers()
        assert len(self.answered_in) == len(self.sent), "a row was lost"
        expected: Rows = Counter()
        stream = stream_of(self.case.kind, self.sent)
        for number, version in enumerate(self.versions):
            rows = {s for s, answered in self.answered_in.items() if answered == number}
            expected.update(plain_join(stream, version, self._on, only=rows).rows)
        pieces = [piece for run in self.runs for piece in run.out]
        assert_same_rows(pieces, expected, "the join after all that")

    # -- helpers ----------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        return self.runs[-1]

    @property
    def _on(self) -> list[str]:
        return self.case.kind.columns

    def _make(self, table: pa.Table) -> Any:
        return self.case.make_master(table, self._on)

    def _version(self, changed: int) -> pa.Table:
        """R in which a sixth of the keys is missing and the others have one to three rows."""
        held = [k for i, k in enumerate(self.known) if i % 6 != changed for _ in range(1 + i % 3)]
        return master_of(self.case.kind, held, seed=changed + 10)

    def _batch(self, keys: Sequence[Key | None]) -> pa.RecordBatch:
        # The columns beside the key depend on a row's number alone, so that they can be made again.
        whole = stream_of(self.case.kind, [*self.sent, *keys])
        rows = whole.slice(len(self.sent)).combine_chunks().to_batches()
        if rows:
            return rows[0]
        return pa.RecordBatch.from_arrays(
            [pa.array([], type=field.type) for field in whole.schema], schema=whole.schema
        )

    def _start(self, spare: int) -> None:
        tables = Tables(stream_of(self.case.kind, []), self.versions[-1], self._on)
        self.runs.append(self.here.run(tables, master=self.master, spare=spare + 2_000))
        self.seen = 0

    def _note_answers(self) -> None:
        """Every row put out since is of the present version, and of that alone."""
        present = len(self.versions) - 1
        for piece in self.run.out[self.seen :]:
            for serial in piece.column(SERIAL).to_pylist():
                before = self.answered_in.setdefault(serial, present)
                assert before == present, f"row {serial} was answered in two versions of R"
        self.seen = len(self.run.out)
