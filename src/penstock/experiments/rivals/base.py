"""What every rival promises, and what it is opened with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from penstock.errors import KeyTypeError, SchemaError, StateError
from penstock.joins.binding import Binding
from penstock.masters import MemoryMaster, PageFileMaster
from penstock.memory import in_one_piece


@dataclass(frozen=True, kw_only=True)
class RivalSetting:
    """What a rival joins.

    Attributes:
        master_path: R as a page file.
        key, stream_key: the key's column in R and in the stream, of one type.
        budget_bytes: what a rival with a budget may hold; one with all of R in memory has none.
        folder: where a rival may keep a copy of R, and finds it later.
        columns: R's columns to add; None: all but the key.
        direct: whether R is read past the kernel's cache, so that no memory is used that nobody
            counts.
    """

    master_path: Path
    key: str
    stream_key: str
    budget_bytes: int
    folder: Path
    columns: tuple[str, ...] | None = None
    direct: bool = True

    def open_master(self) -> PageFileMaster:
        """R, which must be found by this key."""
        master = PageFileMaster(self.master_path, direct=self.direct)
        if master.key != (self.key,):
            master.close()
            raise SchemaError(
                f"{self.master_path} has the key ({', '.join(master.key)}), and a rival joins by "
                f"{self.key!r}. Build the page file with that key, or name the one it has."
            )
        return master

    def added_columns(self, schema: pa.Schema) -> list[str]:
        """The columns of R that come out."""
        if self.columns is not None:
            return list(self.columns)
        return [name for name in schema.names if name != self.key]


class Rival(ABC):
    """Joins a stream, batch by batch, with all that a batch needs before the next one comes.

    A row comes out once, with R's columns beside its own, null where R has no row of its key. The
    order of rows is any.
    """

    title: ClassVar[str]

    def __init__(self, setting: RivalSetting, master_schema: pa.Schema) -> None:
        self._setting, self._master_schema = setting, master_schema
        self._binding: Binding | None = None
        self._rows_in = 0
        self._closed = False

    def push(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch's rows with their partners."""
        if self._closed:
            raise StateError(f"{self.title} is closed; open it again.")
        if self._binding is None:
            self._binding = self._bind(batch.schema)
        batch = self._binding.conform(batch)
        self._rows_in += batch.num_rows
        return self._joined(self._binding, batch)

    def counts(self) -> dict[str, int]:
        """What was done so far, and what is held.

        `rows_in`; `hits`: rows answered from a cache; `look_ups`: keys asked for; `page_reads`:
        pages of R read for them; `statements`: asked of a database; `held_bytes`: of R, with all
        that finds it. A batch, its answer and what is held for one batch alone are not counted.
        """
        return {
            "rows_in": self._rows_in,
            "hits": 0,
            "look_ups": 0,
            "page_reads": 0,
            "statements": 0,
            "held_bytes": 0,
            **self._counted(),
        }

    def close(self) -> None:
        """Let go of R; every later call but this one raises StateError."""
        if not self._closed:
            self._closed = True
            self._let_go()

    @abstractmethod
    def _joined(self, binding: Binding, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that has the stream's columns, in the output's."""

    @abstractmethod
    def _counted(self) -> dict[str, int]:
        """The counts that are not 0 throughout."""

    @abstractmethod
    def _let_go(self) -> None: ...

    def _bind(self, stream: pa.Schema) -> Binding:
        setting = self._setting
        empty = MemoryMaster(self._master_schema.empty_table(), setting.key)
        names = setting.stream_key, setting.key
        binding = Binding.resolve(empty, stream, names, "null", setting.columns)
        ours, theirs = stream.field(names[0]).type, empty.schema.field(names[1]).type
        if ours != theirs:
            raise KeyTypeError(
                f"the stream's {names[0]!r} is {ours} and R's {names[1]!r} is {theirs}; rivals "
                "join keys of one type. Cast the stream's."
            )
        return binding


def shaped(columns: Sequence[pa.Array | pa.ChunkedArray], schema: pa.Schema) -> pa.RecordBatch:
    """Columns that another engine made, in the types that were asked for."""
    wanted = [in_one_piece(c.cast(f.type)) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(wanted, schema=schema)
