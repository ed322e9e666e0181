"""All of R as one Arrow batch, found by bisection: no engine, and the least memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.bench.baselines import InMemoryJoin
from penstock.copying import take
from penstock.errors import KeyTypeError
from penstock.experiments.rivals.lru_lookup import require_single_rows
from penstock.experiments.rivals.whole_master import WholeMaster, runs_of
from penstock.joins.binding import Binding
from penstock.masters import PageFileMaster


class ArrowRival(WholeMaster):
    """The benchmarks' join of an R in memory; a batch's keys are sorted first, which halves it."""

    title = "all of R in memory, Arrow"

    def _hold(self, master: PageFileMaster, columns: list[str]) -> int:
        require_single_rows(master)
        key_type = master.schema.field(columns[0]).type
        if not pa.types.is_integer(key_type):
            raise KeyTypeError(
                f"the key of {master.path} is of type {key_type}, and this rival takes integers."
            )
        names = [self._setting.stream_key, *columns[1:]]
        runs = [rows.rename_columns(names) for rows in runs_of(master, columns)]
        table = pa.Table.from_batches(runs)
        runs.clear()
        self._rows: InMemoryJoin | None = InMemoryJoin(table, names[0])
        return self._rows.nbytes

    def _joined(self, binding: Binding, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert self._rows is not None
        key = batch.column(self._setting.stream_key)
        usable = np.flatnonzero(key.is_valid().to_numpy(zero_copy_only=False))
        codes = binding.keys(batch).codes
        given = take(batch, usable[np.argsort(codes[usable])])
        joined = self._rows.join(given)
        out = pa.RecordBatch.from_arrays(joined.columns, schema=binding.output_schema)
        if len(usable) == batch.num_rows:
            return out
        rest = batch.filter(key.is_null())
        return pa.concat_batches([out, binding.compose(rest.columns, binding.nulls(len(rest)))])

    def _let_go(self) -> None:
        self._rows = None
