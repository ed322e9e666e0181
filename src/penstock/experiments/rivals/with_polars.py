"""All of R in memory, joined batch by batch by Polars."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.experiments.rivals.base import shaped
from penstock.experiments.rivals.whole_master import WholeMaster, missing_package, runs_of
from penstock.joins.binding import Binding
from penstock.masters import PageFileMaster


class PolarsRival(WholeMaster):
    """A left join of each batch with a DataFrame of R, by the streaming engine in any order.

    That builds its hash table of the batch, and R goes by it; the other engine builds one of R for
    each batch, and took six times as long. Threads are as many as `POLARS_MAX_THREADS` says.
    """

    title = "all of R in memory, Polars"

    def _hold(self, master: PageFileMaster, columns: list[str]) -> int:
        try:
            import polars as pl
        except ModuleNotFoundError as error:
            raise missing_package("polars") from error
        self._polars: Any = pl
        runs: list[Any] = [pl.from_arrow(rows) for rows in runs_of(master, columns)]
        self._rows: Any = pl.concat(runs, rechunk=True)
        return int(self._rows.estimated_size())

    def _joined(self, binding: Binding, batch: pa.RecordBatch) -> pa.RecordBatch:
        ours: Any = self._polars.from_arrow(pa.Table.from_batches([batch]))
        joined = ours.lazy().join(
            self._rows.lazy(),
            left_on=self._setting.stream_key,
            right_on=self._setting.key,
            how="left",
            maintain_order="none",
        )
        rows = joined.collect(engine="streaming").to_arrow()
        return shaped(rows.columns, binding.output_schema)

    def _let_go(self) -> None:
        self._rows = None
