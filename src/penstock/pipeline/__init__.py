"""A pipeline: from a stream, through enrichments, to tables; all that a file says, and its run.

| module | what it does |
| --- | --- |
| `definition` | what a pipeline file may say |
| `reading` | a file into a definition; what is wrong with it, in words |
| `paths` | relative paths, from where the file lies |
| `sources` | the stream's DataFrame |
| `avro_values`, `avro_schema`, `avro_bounds` | Avro values of a topic |
| `schema_registry`, `bounded_answers` | whom their schemas are asked of |
| `steps` | enrichments, and the columns that are kept |
| `sinks` | tables that a micro-batch is written to, in the place of its earlier attempt |
| `running` | the query, and its end |
"""

from penstock.pipeline.definition import Pipeline
from penstock.pipeline.reading import read_pipeline

__all__ = ["Pipeline", "read_pipeline"]
