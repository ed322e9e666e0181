"""The promises of a join and of a master, as checks for those who write their own.

`checks_for` gives every check of a join. Each is a call that raises AssertionError when a promise
is broken, with an id to name a test by:

>>> import penstock, penstock.testing as testing
>>> def make_master(table, key):
...     return penstock.MemoryMaster(table, key, page_rows=20)
>>> checks = list(testing.checks_for(penstock.joins.RootJoin(), make_master, kinds=["int64"]))
>>> checks[0].id
'int64:matches_oracle'
>>> checks[0]()

So with pytest:

    @pytest.mark.parametrize("check", checks, ids=lambda check: check.id)
    def test_my_join(check):
        check()

`master_checks_for` does the same for a master alone. `CrippledMaster` makes any master slow,
failing, short or changing. `plain_join` is the join in plain Python that all others must equal.
`penstock.testing.machine` has a state machine that needs Hypothesis, so it is imported by its own
name.
"""

from __future__ import annotations

from penstock.testing.cases import Case
from penstock.testing.catalogue import Check, applies, checks_for
from penstock.testing.clocks import HandClock
from penstock.testing.collisions import colliding_codes
from penstock.testing.crippled import CrippledMaster, always, every, never, on_reads
from penstock.testing.key_kinds import KEY_KINDS, KeyKind
from penstock.testing.master_checks import MasterCheck, master_checks_for
from penstock.testing.oracle import Expected, assert_same_rows, plain_join
from penstock.testing.pairwise import pairwise
from penstock.testing.runs import Run
from penstock.testing.tables import Tables, make_tables

__all__ = [
    "KEY_KINDS",
    "Case",
    "Check",
    "CrippledMaster",
    "Expected",
    "HandClock",
    "KeyKind",
    "MasterCheck",
    "Run",
    "Tables",
    "always",
    "applies",
    "assert_same_rows",
    "checks_for",
    "colliding_codes",
    "every",
    "make_tables",
    "master_checks_for",
    "never",
    "on_reads",
    "pairwise",
    "plain_join",
]
