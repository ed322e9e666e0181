"""The stream's DataFrame: the columns that the file names, and what could not be read as these."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from penstock.errors import MissingPackageError, PenstockError
from penstock.pipeline.brokers import require_brokers, require_topic
from penstock.pipeline.definition import FilesSource, KafkaSource, Pipeline, SalesSource
from penstock.pipeline.json_values import json_rows
from penstock.pipeline.own_names import UNREADABLE, WHY, refuse_own_names, repeated
from penstock.pipeline.reading import PipelineError, first_line
from penstock.spark.source import register
from penstock.spark.source_options import SalesOptions

_WHOLE_FILES = {"multiline", "encoding", "charset"}
"""Options with which JSON is not read line by line, in lower case."""


def stream(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    """The rows of the source. Where dead letters have a place, rows that cannot be read have their
    text in a column of its own; otherwise the first of them ends the query.
    """
    source, keeps = pipeline.source, pipeline.dead_letters is not None
    if isinstance(source, KafkaSource):
        return _kafka(source, spark, keeps=keeps)
    if isinstance(source, FilesSource):
        return _files(source, spark, keeps=keeps)
    return _sales(source, spark)


def _columns(declared: str) -> StructType:
    found = _declared(declared)
    twice = repeated(found.names)
    if twice:
        raise PipelineError(
            f"source.columns: {', '.join(map(repr, twice))} have one name to Spark; each may be "
            "there once."
        )
    refuse_own_names(found.names, "source.columns")
    return found


def _declared(declared: str) -> StructType:
    try:
        found = StructType.fromDDL(declared)
        assert isinstance(found, StructType)
        return found
    except Exception as error:
        raise PipelineError(
            f"source.columns: {declared!r} is no list of columns ({first_line(error)}). "
            "Write them as 'product_id BIGINT, quantity INT, sold_at TIMESTAMP'."
        ) from error


def _sales(source: SalesSource, spark: SparkSession) -> DataFrame:
    try:
        SalesOptions.parse(source.options)
    except PenstockError as error:
        raise PipelineError(f"source.options: {error}") from error
    register(spark)
    reader = spark.readStream.format("penstock_sales")
    return reader.options(**source.options).load()


def _files(source: FilesSource, spark: SparkSession, *, keeps: bool) -> DataFrame:
    partitions = _partitions(source, spark)
    reader = spark.readStream.options(**source.options)
    if source.files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", source.files_per_batch)
    if source.columns is None:
        if source.kind != "parquet":
            raise PipelineError(
                f"source.columns: is missing. {source.kind.upper()} files do not tell the types of "
                "their columns: 'product_id BIGINT, quantity INT'."
            )
        return reader.schema(_parquet_columns(source, spark)).parquet(source.path)
    schema, given = _columns(source.columns), {name.casefold() for name in source.options}
    if source.kind == "parquet":
        return reader.schema(schema).parquet(source.path)
    if source.kind == "json" and not partitions and not given & _WHOLE_FILES:
        lines = reader.text(source.path).where(F.trim("value") != "")
        return json_rows(lines, F.col("value"), schema, source.options, keeps=keeps)
    if source.kind == "csv" and "enforceschema" not in given:
        # A header that names other columns, or in another order, is told and not passed over.
        reader = reader.option("enforceSchema", False)
    if keeps:
        reader = reader.option("mode", "PERMISSIVE")
        reader = reader.option("columnNameOfCorruptRecord", UNREADABLE)
        schema = StructType([*schema.fields]).add(UNREADABLE, StringType())
    else:
        reader = reader.option("mode", "FAILFAST")
    return reader.schema(schema).format(source.kind).load(source.path)


def _partitions(source: FilesSource, spark: SparkSession) -> list[str]:
    """The columns that the names of folders say (`day=2024-02-29`); raises where no folder is."""
    try:
        return spark.read.options(**source.options).text(source.path).columns[1:]
    except Exception as error:
        raise PipelineError(
            f"source.path: {source.path} cannot be read: {first_line(error)}"
        ) from error


def _parquet_columns(source: FilesSource, spark: SparkSession) -> StructType:
    try:
        found = spark.read.options(**source.options).parquet(source.path).schema
    except Exception as error:
        raise PipelineError(
            f"source.columns: is missing, and the files in {source.path} do not tell them: "
            f"{first_line(error)}"
        ) from error
    refuse_own_names(found.names, "source")
    return found


def _kafka(source: KafkaSource, spark: SparkSession, *, keeps: bool) -> DataFrame:
    require_brokers(source.servers)
    require_topic(spark, source.servers, source.topic, source.options)
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", source.servers)
        .option("subscribe", source.topic)
        .option("startingOffsets", source.starting)
        .options(**source.options)
    )
    if source.rows_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", source.rows_per_batch)
    if source.format == "avro":
        require_fastavro()
        from penstock.pipeline.avro_values import AvroValues, avro_rows

        values = AvroValues.of(source.avro_schema, source.registry, f"{source.topic}-value")
        refuse_own_names((f.name for f in values.columns), "source.schema")
        return avro_rows(reader.load(), values, [UNREADABLE, WHY] if keeps else [])
    assert source.columns is not None
    schema = _columns(source.columns)
    return json_rows(reader.load(), F.col("value").cast("string"), schema, {}, keeps=keeps)


def require_fastavro() -> None:
    """Raise unless Avro can be read."""
    try:
        import fastavro  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            "Avro needs the package fastavro: pip install 'penstock[pipeline]'."
        ) from error
