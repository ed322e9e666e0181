"""What a pipeline file may say; each field's description is what an editor shows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.spark.enrich import DEFAULT_BUDGET

Text = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    """A table of the file: nothing that is not known, nothing that is of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class KafkaSource(Part):
    """Values of a topic of Kafka."""

    kind: Literal["kafka"]
    servers: Text = Field(description="host:port of brokers, with commas")
    topic: Text
    format: Literal["json", "avro"] = Field("json", description="how values are written")
    columns: Text | None = Field(
        None,
        description="the columns of a JSON value as Spark's DDL: 'product_id BIGINT, quantity INT'",
    )
    avro_schema: Text | None = Field(
        None,
        alias="schema",
        description="the file of the Avro schema (.avsc) whose fields are the columns; with a "
        "registry, the newest of the topic's if not given",
    )
    registry: Text | None = Field(
        None,
        description="http://user@host:8081 of the schema registry that values name their schemas "
        "of, without a password",
    )
    starting: Literal["earliest", "latest"] = Field(
        "earliest", description="where a query without a checkpoint begins"
    )
    rows_per_batch: int | None = Field(None, ge=1, description="rows of a micro-batch, at most")
    options: dict[str, str] = Field(
        default_factory=dict, description="further options of Spark's Kafka source"
    )


class FilesSource(Part):
    """Files of a folder, as they come."""

    kind: Literal["json", "csv", "parquet"]
    path: Text
    columns: str | None = Field(
        None, description="the columns as Spark's DDL; Parquet files tell their own"
    )
    files_per_batch: int | None = Field(None, ge=1, description="files of a micro-batch, at most")
    options: dict[str, str] = Field(
        default_factory=dict, description="further options of Spark's reader, such as header"
    )


class SalesSource(Part):
    """Seeded sales of products, to try a pipeline with."""

    kind: Literal["penstock_sales"]
    options: dict[str, str] = Field(
        default_factory=dict, description="options of the source: products, rowsPerBatch, seed, …"
    )


Source = Annotated[KafkaSource | FilesSource | SalesSource, Field(discriminator="kind")]


class Enrichment(Part):
    """One `enrich`: a master, and the columns of it that rows get."""

    master: Text = Field(description="path or address of the master")
    on: str | list[str] | dict[str, str] = Field(
        description="the key: a column that both have, a list, or {stream column = master column}"
    )
    columns: list[str] | None = Field(None, description="the master's columns to add; all if not")
    budget: str = Field(DEFAULT_BUDGET, description="bytes that one worker's operator holds")
    misses: Literal["null", "drop", "mark", "dead-letter"] = Field(
        "null",
        description="rows without a partner: put out with nulls, dropped, put out with the reason "
        "in the column _miss, or sent to the dead letters",
    )
    join: str = Field("auto", description="auto, or the name of a join")
    plan: str | None = Field(None, description="a plan file, in place of join and budget")
    max_wait: str | None = Field(None, description="how long rows may wait: '30s'; at once if not")
    drain: Literal["pause", "deadline"] = Field("pause", description="when rows that wait leave")
    shards: int | None = Field(None, ge=1, description="partitions by key range")
    staleness: str | None = Field(None, description="how far answers may be behind the master")
    retry_for: str = Field("2m", description="how long a database may be away")
    retry_misses: str | None = Field(
        None, description="how long rows without a partner wait for one that comes late"
    )
    name: str | None = Field(None, description="what metrics and dead letters call it")

    def called(self, number: int) -> str:
        """What dead letters call it: the name, or the step's number."""
        return self.name or f"enrich.{number}"


class Columns(Part):
    """The columns that are written, in this order: kept ones, renamed ones, computed ones."""

    keep: list[str] | None = Field(None, description="columns to keep; all if not given")
    rename: dict[str, str] = Field(default_factory=dict, description="{old name = new name}")
    compute: dict[str, str] = Field(
        default_factory=dict, description="{name = SQL expression over all columns}"
    )


class ParquetSink(Part):
    """A folder of Parquet files, one folder in it for each micro-batch."""

    kind: Literal["parquet"]
    path: Text


class DeltaSink(Part):
    """A Delta table."""

    kind: Literal["delta"]
    path: Text


class PostgresSink(Part):
    """A table of PostgreSQL, made if it is not there."""

    kind: Literal["postgresql"]
    server: Text = Field(description="postgresql://user@host/database, without a password")
    table: Text = Field(description="table or schema.table")


class KafkaSink(Part):
    """A topic of Kafka, as JSON: at least once, since a topic cannot take back what it was sent."""

    kind: Literal["kafka"]
    servers: Text
    topic: Text
    key: str | None = Field(None, description="the column that is the message's key")
    options: dict[str, str] = Field(default_factory=dict)


class ConsoleSink(Part):
    """Some rows of each micro-batch on the screen."""

    kind: Literal["console"]
    rows: int = Field(20, ge=1)


Sink = Annotated[
    ParquetSink | DeltaSink | PostgresSink | KafkaSink | ConsoleSink, Field(discriminator="kind")
]


class SparkSettings(Part):
    """The session that the pipeline runs in."""

    master: str = Field("local[*,4]", description="Spark's master")
    jars: list[str] = Field(default_factory=list, description="further jars")
    settings: dict[str, str] = Field(default_factory=dict, description="settings of Spark")


class Pipeline(Part):
    """A whole file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")] = Field(
        description="what metrics, logs and staging tables call it"
    )
    checkpoint: Text = Field(description="the folder of Spark's checkpoint: one for each pipeline")
    trigger: Text = Field(
        "available-now",
        description="a time between micro-batches ('10s'), or available-now: what is there, then "
        "end",
    )
    source: Source
    enrich: list[Enrichment] = Field(default_factory=list)
    columns: Columns = Field(default_factory=Columns)
    sink: list[Sink] = Field(min_length=1)
    dead_letters: Sink | None = Field(
        None, description="where rows go that cannot be read, or have no partner"
    )
    spark: SparkSettings = Field(default_factory=SparkSettings)
