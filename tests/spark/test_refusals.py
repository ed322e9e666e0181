"""Everything that `enrich` refuses, it refuses on the driver, before a job runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F
from tests.spark.conftest import Feed, sales

import penstock
from penstock.costs.plan_file import write_plan
from penstock.errors import (
    BudgetError,
    KeyTypeError,
    MasterError,
    OptionError,
    PenstockError,
    SchemaError,
    SizeError,
)
from penstock.joins import RootJoin, named
from penstock.masters import build_master

WRONG: list[tuple[dict[str, Any], type[PenstockError], str]] = [
    ({"on": "skuu"}, SchemaError, "Did you mean 'sku'"),
    ({"on": "sale"}, SchemaError, "the master's key is"),
    ({"on": ("at", "sku")}, KeyTypeError, "cannot meet a master key of type int64"),
    ({"on": []}, SchemaError, "names no key"),
    ({"columns": ["prise"]}, SchemaError, "Did you mean 'price'"),
    ({"columns": ["price", "price"]}, SchemaError, "'price'"),
    ({"columns": ["sku"]}, SchemaError, "columns has the key 'sku'"),
    ({"on_miss": "fail"}, SchemaError, "on_miss is"),
    ({"budget": "lots"}, BudgetError, "is not a size"),
    ({"budget": "3kB"}, BudgetError, "needs at least"),
    ({"join": "routejoin"}, OptionError, "no join is named"),
    ({"join": 7}, OptionError, "join is 'auto'"),
    ({"join": RootJoin(), "budget": "9MB"}, OptionError, "give one of them"),
    ({"plan": "/no/plan.json"}, OptionError, r"/no/plan\.json cannot be read"),
    ({"plan": "p.json", "join": "ssij"}, OptionError, "p.json brings its join and its budget"),
    ({"plan": "p.json", "budget": "9MB"}, OptionError, "leave out join and budget, or plan"),
    ({"plan": "p.json", "join": RootJoin()}, OptionError, "brings its join"),
    ({"plan": RootJoin()}, OptionError, "by its path, not by RootJoin"),
    ({"shards": 0}, OptionError, "shards=0"),
    ({"shards": True}, OptionError, "shards=True"),
    ({"drain": "never"}, OptionError, "drain='never'"),
    ({"master": "/no/where.arrow"}, MasterError, r"on an executor: there is no file /no/where"),
    ({"master": 7}, OptionError, "a path, a URI or an open master"),
    ({"master": " "}, OptionError, "is no path"),
    ({"master_schema": {"a": "int"}}, SchemaError, "master_schema is a pyarrow.Schema"),
]


@pytest.mark.parametrize(("options", "kind", "text"), WRONG, ids=[w[2][:24] for w in WRONG])
def test_what_cannot_be(
    spark: SparkSession,
    master: Path,
    options: dict[str, Any],
    kind: type[PenstockError],
    text: str,
) -> None:
    df = spark.createDataFrame(sales(5))
    with pytest.raises(kind, match=text):
        penstock.enrich(df, **({"master": master, "on": "sku"} | options))


def test_plan_files(spark: SparkSession, master: Path, tmp_path: Path) -> None:
    """One that is none, and one whose join and budget are what is built, and refused."""
    df, path = spark.createDataFrame(sales(5)), tmp_path / "plan.json"
    path.write_text("budget: 50MB")
    with pytest.raises(OptionError, match=r"plan\.json is no plan: it is not JSON"):
        penstock.enrich(df, master=master, on="sku", plan=path)
    path.unlink()
    write_plan(path, "hybridjoin", named("hybridjoin", budget="3kB"))
    with pytest.raises(BudgetError, match="HYBRIDJOIN needs at least"):
        penstock.enrich(df, master=master, on="sku", plan=path)


def test_not_a_dataframe(spark: SparkSession, master: Path) -> None:
    with pytest.raises(OptionError, match=r"takes a Spark DataFrame, not a pyarrow\.lib\.Table"):
        penstock.enrich(sales(5), master=master, on="sku")  # type: ignore[arg-type]


def test_names_that_clash(spark: SparkSession, master: Path) -> None:
    df = spark.createDataFrame(sales(5))
    for clash in ("price", "PRICE"):
        with pytest.raises(SchemaError, match=r"columns=\[…\]"):
            penstock.enrich(df.withColumn(clash, F.lit(1)), master=master, on="sku")
    with pytest.raises(SchemaError, match="'_miss'"):
        penstock.enrich(df.withColumn("_miss", F.lit(1)), master=master, on="sku", on_miss="mark")
    with pytest.raises(SchemaError, match="'sku' have one name"):
        penstock.enrich(df.select("sku", "sku"), master=master, on="sku")
    with pytest.raises(SchemaError, match="for itself"):
        penstock.enrich(df.withColumn("_penstock_metrics", F.lit(1)), master=master, on="sku")


def test_keys_that_spark_compares_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    build_master(pa.table({"name": ["a", "b"], "n": [1, 2]}), tmp_path / "r.arrow", "name")
    df = spark.sql("select 'A' collate UTF8_LCASE as name")
    with pytest.raises(KeyTypeError, match="collation UTF8_LCASE"):
        penstock.enrich(df, master=tmp_path / "r.arrow", on="name")


def test_a_column_that_spark_has_no_type_for(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"sku": [1], "wide": pa.array([1], pa.decimal256(50, 0)), "n": [1]})
    build_master(table, tmp_path / "r.arrow", "sku")
    df = spark.createDataFrame(sales(5))
    with pytest.raises(
        SchemaError, match=r"no type for the master's column 'wide' of type decimal"
    ):
        penstock.enrich(df, master=tmp_path / "r.arrow", on="sku")
    assert penstock.enrich(df, master=tmp_path / "r.arrow", on="sku", columns=["n"]).count() == 5


def test_waiting_where_it_cannot_be(feed: Feed, master: Path, spark: SparkSession) -> None:
    feed.add(sales(5))
    timed = feed.stream().withWatermark("at", "1 minute")
    with pytest.raises(OptionError, match=r"watermark \(on 'at'\).*dropped as late"):
        penstock.enrich(timed, master=master, on="sku", max_wait="30s")
    at_once = penstock.enrich(timed, master=master, on="sku")
    with pytest.raises(OptionError, match="watermark"):
        penstock.enrich(at_once, master=master, on=("sale", "sku"), columns=[], max_wait="30s")
    # A DataFrame that does not stream has nothing to wait for.
    df = spark.createDataFrame(sales(5))
    assert penstock.enrich(df, master=master, on="sku", max_wait="30s").count() == 5


@pytest.mark.parametrize("wrong", ["soon", 1000, "-1s", float("inf")])
def test_a_wait_that_is_no_time(feed: Feed, master: Path, wrong: object) -> None:
    feed.add(sales(5))
    with pytest.raises(OptionError, match=r"'30s'.*None answers every row at once") as told:
        penstock.enrich(feed.stream(), master=master, on="sku", max_wait=wrong)  # type: ignore[arg-type]
    assert "number of rows" not in str(told.value)


@pytest.mark.parametrize("wrong", [5, [None], ["price", 5], {"price": 1}])
def test_columns_that_are_no_names(spark: SparkSession, master: Path, wrong: object) -> None:
    df = spark.createDataFrame(sales(5))
    with pytest.raises(OptionError, match="a list of names"):
        penstock.enrich(df, master=master, on="sku", columns=wrong)  # type: ignore[arg-type]


def test_sizes_that_no_machine_has(spark: SparkSession, master: Path) -> None:
    df = spark.createDataFrame(sales(5))
    with pytest.raises(SizeError, match="more bytes than any machine has"):
        penstock.enrich(df, master=master, on="sku", budget=10**30)
    with pytest.raises(OptionError, match="1 to 10000"):
        penstock.enrich(df, master=master, on="sku", shards=10**9)
    with pytest.raises(OptionError, match="is no path"):
        penstock.enrich(df, master="\0x", on="sku")


def test_a_deadline_without_a_wait(feed: Feed, master: Path) -> None:
    feed.add(sales(5))
    with pytest.raises(OptionError, match="without max_wait"):
        penstock.enrich(feed.stream(), master=master, on="sku", drain="deadline")


def test_an_observation_of_a_stream(feed: Feed, master: Path) -> None:
    feed.add(sales(5))
    with pytest.raises(OptionError, match=r"penstock\.spark\.metrics\(query\)"):
        penstock.enrich(feed.stream(), master=master, on="sku", observation=Observation("x"))


def test_without_pyspark_the_error_says_what_to_type() -> None:
    program = (
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'pyspark': raise ModuleNotFoundError(name)\n"
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n == 'pyspark' else real(n, *a)\n"
        "from penstock import enrich\n"
        "import penstock.spark\n"
        "assert 'pyspark' not in sys.modules\n"
        "for call in (lambda: enrich(1, master='x', on='y'), lambda: penstock.spark.metrics):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("pip install 'penstock[spark]'") == 2
