"""Where micro-batches are written: each in the place of what an earlier attempt of it wrote."""

from __future__ import annotations

from penstock.pipeline.definition import (
    ConsoleSink,
    DeltaSink,
    KafkaSink,
    ParquetSink,
    PostgresSink,
    Sink,
)
from penstock.pipeline.sinks.base import BATCH, Target
from penstock.pipeline.sinks.console import ConsoleTarget
from penstock.pipeline.sinks.delta import DeltaTarget
from penstock.pipeline.sinks.kafka import KafkaTarget
from penstock.pipeline.sinks.parquet import ParquetTarget
from penstock.pipeline.sinks.postgres import PostgresTarget

__all__ = ["BATCH", "Target", "target"]


def target(sink: Sink, pipeline: str) -> Target:
    """What writes to a sink, for the pipeline of this name."""
    if isinstance(sink, ParquetSink):
        return ParquetTarget(sink)
    if isinstance(sink, DeltaSink):
        return DeltaTarget(sink)
    if isinstance(sink, PostgresSink):
        return PostgresTarget(sink, pipeline)
    if isinstance(sink, KafkaSink):
        return KafkaTarget(sink)
    assert isinstance(sink, ConsoleSink)
    return ConsoleTarget(sink)
