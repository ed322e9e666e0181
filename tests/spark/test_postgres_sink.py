"""The PostgreSQL sink's staging tables, and texts that PostgreSQL cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.pipeline.definition import PostgresSink

if TYPE_CHECKING:
    from tests.servers.postgres import PostgresServer

    from penstock.pipeline.sinks.postgres import PostgresTarget

pytestmark = pytest.mark.one_spark


def target(server: PostgresServer, table: str, pipeline: str = "shop") -> PostgresTarget:
    from penstock.pipeline.sinks.postgres import PostgresTarget

    return PostgresTarget(PostgresSink(kind="postgresql", server=server.uri, table=table), pipeline)


def stages(server: PostgresServer) -> int:
    """Of these two pipelines."""
    from penstock.pipeline.sinks.postgres import stage_prefix

    named = " OR ".join(f"relname LIKE '{stage_prefix(p)}%'" for p in ("shop", "shop_eu"))
    return server.ask(f"SELECT 1 AS n FROM pg_class WHERE relkind = 'r' AND ({named})").num_rows


def test_what_attempts_leave_behind_goes_with_the_next(
    postgres: PostgresServer, spark: SparkSession
) -> None:
    from tests.servers.tables import next_name

    name = next_name()
    postgres.execute(
        f"CREATE TABLE {name} (id bigint CHECK (id < 5), penstock_batch text)",
        f"CREATE INDEX ON {name} (penstock_batch)",
    )
    sink = target(postgres, name)
    for _ in range(2):
        with pytest.raises(PenstockError, match="violates check"):
            sink.write(spark.range(10), "a-1")
        assert stages(postgres) == 1
    other = target(postgres, name, "shop_eu")
    with pytest.raises(PenstockError, match="violates check"):
        other.write(spark.range(10), "b-1")
    target(postgres, name).clear()
    assert stages(postgres) == 1
    other.write(spark.range(5), "b-1")
    assert stages(postgres) == 0
    assert postgres.ask(f"SELECT id FROM {name} ORDER BY id")["id"].to_pylist() == list(range(5))


def test_a_zero_in_a_text(postgres: PostgresServer, spark: SparkSession) -> None:
    from tests.servers.tables import next_name

    name = next_name()
    rows = spark.createDataFrame([("x\0y", ["a\0"]), (None, None)], "t string, l array<string>")
    target(postgres, name).write(rows, "a-1")
    found = postgres.ask(f"SELECT t, l FROM {name} ORDER BY t NULLS LAST").to_pylist()
    assert found == [{"t": "x\ufffdy", "l": '["a\\u0000"]'}, {"t": None, "l": None}]
