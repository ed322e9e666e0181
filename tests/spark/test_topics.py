"""Topics that are not there are told before a query starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.test_pipeline import products

from penstock.masters import build_master
from penstock.pipeline.reading import PipelineError, define
from penstock.pipeline.running import prepare

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker

pytestmark = [pytest.mark.one_spark, pytest.mark.cluster]


def test_a_topic_that_is_not_there(
    broker: KafkaBroker, spark: SparkSession, tmp_path: Path
) -> None:
    build_master(products(range(5)), tmp_path / "r.arrow", "sku")
    source = {"kind": "kafka", "servers": broker.address, "columns": "sku BIGINT"}
    given: dict[str, Any] = {
        "name": "topics",
        "checkpoint": str(tmp_path / "checkpoint"),
        "enrich": [{"master": str(tmp_path / "r.arrow"), "on": "sku"}],
        "sink": [{"kind": "console"}],
    }
    broker.send("there", ['{"sku": 1}'])
    prepare(define({**given, "source": {**source, "topic": "there"}}), spark)
    with pytest.raises(PipelineError, match="no topic 'elsewhere'"):
        prepare(define({**given, "source": {**source, "topic": "elsewhere"}}), spark)
