"""The stream's DataFrame: the columns that the file names, and what could not be read as these."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from penstock.errors import MissingPackageError
from penstock.pipeline.brokers import require_brokers
from penstock.pipeline.definition import FilesSource, KafkaSource, Pipeline, SalesSource
from penstock.pipeline.own_names import UNREADABLE, WHY, refuse_own_names, repeated
from penstock.pipeline.reading import PipelineError
from penstock.spark.source import register


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
        said = str(error).strip().splitlines()
        raise PipelineError(
            f"source.columns: {declared!r} is no list of columns ({said[0] if said else error}). "
            "Write them as 'product_id BIGINT, quantity INT, sold_at TIMESTAMP'."
        ) from error


def _sales(source: SalesSource, spark: SparkSession) -> DataFrame:
    register(spark)
    reader = spark.readStream.format("penstock_sales")
    return reader.options(**source.options).load()


def _files(source: FilesSource, spark: SparkSession, *, keeps: bool) -> DataFrame:
    reader = spark.readStream.options(**source.options)
    if source.files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", source.files_per_batch)
    if source.columns is None:
        if source.kind != "parquet":
            raise PipelineError(
                f"source.columns: is missing. {source.kind.upper()} files do not tell the types of "
                "their columns: 'product_id BIGINT, quantity INT'."
            )
        found = spark.read.parquet(source.path).schema
        refuse_own_names(found.names, "source")
        return reader.schema(found).parquet(source.path)
    schema = _columns(source.columns)
    if source.kind == "parquet":
        return reader.schema(schema).parquet(source.path)
    if keeps:
        reader = reader.option("mode", "PERMISSIVE")
        reader = reader.option("columnNameOfCorruptRecord", UNREADABLE)
        schema = StructType([*schema.fields]).add(UNREADABLE, StringType())
    else:
        reader = reader.option("mode", "FAILFAST")
    return reader.schema(schema).format(source.kind).load(source.path)


def _kafka(source: KafkaSource, spark: SparkSession, *, keeps: bool) -> DataFrame:
    require_brokers(source.servers)
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
    text = F.col("value").cast("string")
    if not keeps:
        parsed = F.from_json(text, schema, {"mode": "FAILFAST"})
        return reader.load().select(parsed.alias("row")).select("row.*")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE}
    wider = StructType([*schema.fields]).add(UNREADABLE, StringType())
    rows = reader.load().select(F.from_json(text, wider, options).alias("row"), text.alias("text"))
    # A value that is null, or no object, is unreadable too.
    unreadable = F.when(
        F.col("row").isNull() | F.col("text").isNull(), F.coalesce("text", F.lit(""))
    ).otherwise(F.col(f"row.{UNREADABLE}"))
    kept = [F.col("row").getField(f.name).alias(f.name) for f in schema.fields]
    return rows.select(*kept, unreadable.alias(UNREADABLE))


def require_fastavro() -> None:
    """Raise unless Avro can be read."""
    try:
        import fastavro  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            "Avro needs the package fastavro: pip install 'penstock[pipeline]'."
        ) from error
