"""All of R in memory, joined batch by batch by DuckDB."""

from __future__ import annotations

import pyarrow as pa

from penstock.experiments.rivals.base import shaped
from penstock.experiments.rivals.whole_master import WholeMaster, missing_package, runs_of
from penstock.joins.binding import Binding
from penstock.masters import PageFileMaster


class DuckdbRival(WholeMaster):
    """A left join of each batch, registered as it is, with a table of R; one thread.

    DuckDB builds its hash table of the batch, which is the smaller, and scans R. An index on the
    key did not make it faster, so there is none.
    """

    title = "all of R in memory, DuckDB"

    def _hold(self, master: PageFileMaster, columns: list[str]) -> int:
        try:
            import duckdb
        except ModuleNotFoundError as error:
            raise missing_package("duckdb") from error
        settings: dict[str, str | bool | int | float | list[str]] = {
            "threads": 1,
            "preserve_insertion_order": False,
        }
        self._database = duckdb.connect(":memory:", config=settings)
        schema = pa.schema([master.schema.field(name) for name in columns])
        self._database.register(
            "rows", pa.RecordBatchReader.from_batches(schema, runs_of(master, columns))
        )
        self._database.execute("CREATE TABLE r AS SELECT * FROM rows")
        self._database.unregister("rows")
        ours, theirs = _quoted(self._setting.stream_key), _quoted(columns[0])
        added = "".join(f", r.{_quoted(name)}" for name in columns[1:])
        self._statement = (
            f"SELECT batch.*{added} FROM batch LEFT JOIN r ON batch.{ours} = r.{theirs}"
        )
        rows = self._database.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()")
        (said,) = rows.fetchall()[0]
        self._statements = 0
        return int(said)

    def _joined(self, binding: Binding, batch: pa.RecordBatch) -> pa.RecordBatch:
        self._statements += 1
        self._database.register("batch", pa.Table.from_batches([batch]))
        rows = self._database.sql(self._statement).to_arrow_table()
        return shaped(rows.columns, binding.output_schema)

    def _counted(self) -> dict[str, int]:
        return {**super()._counted(), "statements": self._statements}

    def _let_go(self) -> None:
        self._database.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
