"""Measuring `enrich` beside Spark's own ways, by whole micro-batches.

| module | what it does |
| --- | --- |
| `case` | what is measured: R, the micro-batches, the budget, the ways |
| `tables` | R as a page file and as Parquet, kept between runs; the stream as files |
| `database`, `handwritten` | R in PostgreSQL, what it spends; what people write themselves |
| `delayed` | the embedded master with slower reads |
| `queries` | the DataFrame of each way |
| `measuring` | ways in one Spark session: milliseconds, memory, page reads |
| `resident`, `little_join` | resident memory of Spark's Python workers, and of an idle one |
| `worker`, `process` | a process with a Spark of its own for ways that are measured together |
| `suite` | all ways in one run |
"""

from penstock.spark.bench.case import AGAINST, OURS, SparkBenchError, SparkCase
from penstock.spark.bench.suite import SparkSuite

__all__ = ["AGAINST", "OURS", "SparkBenchError", "SparkCase", "SparkSuite"]
