"""A topic of Kafka: what was sent cannot be taken back, so a replay sends it again."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.brokers import require_brokers
from penstock.pipeline.definition import KafkaSink
from penstock.pipeline.sinks.base import BATCH, quoted_column


class KafkaTarget:
    """Rows as JSON, with `penstock_batch` among their fields, so that readers can tell a replay."""

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self.place = f"the topic {sink.topic} at {sink.servers}"
        self.described = f"{self.place}, at least once"

    def check(self, spark: SparkSession) -> None:
        require_brokers(self._sink.servers)

    def write(self, rows: DataFrame, batch: str) -> None:
        sink, tagged = self._sink, rows.withColumn(BATCH, F.lit(batch))
        chosen = [F.to_json(F.struct(*map(quoted_column, tagged.columns))).alias("value")]
        if sink.key is not None:
            chosen.insert(0, quoted_column(sink.key).cast("string").alias("key"))
        (
            tagged.select(*chosen)
            .write.format("kafka")
            .option("kafka.bootstrap.servers", sink.servers)
            .option("topic", sink.topic)
            .options(**sink.options)
            .save()
        )

    def close(self) -> None: ...
