"""Joins on a table whose rows are only looked up: those that read pages are refused at once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.servers.postgres import PostgresMasters, PostgresServer

from penstock.errors import OptionError
from penstock.joins.names import NAMES, named
from penstock.masters import Master
from penstock.testing.oracle import assert_same_rows, plain_join

LOOK_UP = {"hybridjoin", "hybridjoin-pq", "cachejoin", "sscj", "cachejoin-pq", "rootjoin"}
R = pa.table({"k": [f"key {i}" for i in range(1000)], "v": list(range(1000))})


@pytest.fixture(scope="module")
def master(postgres: PostgresServer) -> Iterator[Master]:
    masters = PostgresMasters(postgres, "und-x-icu")
    yield masters(R, ["k"])
    masters.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_join_looks_rows_up_or_is_refused(name: str, master: Master) -> None:
    stream = pa.table({"k": [f"key {7 * i}" for i in range(200)]})
    plan = named(name, budget="2MB")
    if name not in LOOK_UP:
        with pytest.raises(OptionError, match="can only be looked up key by key"):
            plan.build(master, stream.schema, on="k")
        return
    join = plan.build(master, stream.schema, on="k")
    found = [*join.push(stream.to_batches()[0]), *join.flush()]
    assert_same_rows(found, plain_join(stream, R, "k").rows)
