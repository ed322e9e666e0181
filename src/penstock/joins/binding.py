"""How one stream's rows and one master's rows become output rows: columns, keys and misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.copying import Layout
from penstock.errors import KeyTypeError, SchemaError, did_you_mean
from penstock.joins.waits import ARRIVAL_COLUMN, ARRIVED_AT_COLUMN
from penstock.keys import NO_SUCH_ROW, NULL_KEY, KeyMeeting, Keys
from penstock.masters.base import Master
from penstock.masters.plain_types import measurable, plain_batch, plain_column, plain_type
from penstock.rows import widest_nbytes
from penstock.window import ARRIVAL

On = str | tuple[str, str] | Sequence[str | tuple[str, str]] | Mapping[str, str]
OnMiss = Literal["null", "drop", "mark"]
MISS = "_miss"
GAVE_UP = 3
REASONS = {NULL_KEY: "null key", NO_SUCH_ROW: "no such row", GAVE_UP: "gave up retrying"}


@dataclass(frozen=True)
class Binding:
    """The columns that a join reads and writes; made once, and every error is raised then.

    Columns of the stream are held and put out in plain types: dictionaries, views and run ends as
    the values that they stand for, so that a row's bytes are its own.
    """

    stream_schema: pa.Schema
    stream_key: tuple[str, ...]
    master_key: tuple[str, ...]
    columns: tuple[str, ...]
    on_miss: OnMiss
    meeting: KeyMeeting
    output_schema: pa.Schema

    @classmethod
    def resolve(
        cls,
        master: Master,
        stream_schema: pa.Schema,
        on: On,
        on_miss: OnMiss,
        columns: Sequence[str] | None,
    ) -> Binding:
        if on_miss not in ("null", "drop", "mark"):
            raise SchemaError(f"on_miss is 'null', 'drop' or 'mark', not {on_miss!r}.")
        pairs = _pairs(on, master.key)
        _require_key(pairs, stream_schema, master)
        _require_free_names(stream_schema)
        by_master = {theirs: ours for ours, theirs in pairs}
        stream_schema = pa.schema(
            [plain_column(f, "the stream") for f in stream_schema], stream_schema.metadata
        )
        stream_key = tuple(by_master[name] for name in master.key)
        if columns is None:
            chosen = [n for n in master.schema.names if n not in master.key]
        else:
            chosen = [columns] if isinstance(columns, str) else list(columns)
            for name in dict.fromkeys(chosen):
                _require_column(name, stream_schema, master.schema)
        meeting = _meeting(stream_schema, stream_key, master)
        _refuse_clashes(stream_schema, stream_key, chosen, on_miss)
        added = [master.schema.field(n).with_nullable(True) for n in chosen]
        if on_miss == "mark":
            added.append(pa.field(MISS, pa.string()))
        return cls(
            stream_schema,
            stream_key,
            tuple(master.key),
            tuple(chosen),
            on_miss,
            meeting,
            pa.schema([*stream_schema, *added]),
        )

    @cached_property
    def stream_layout(self) -> Layout:
        return Layout(self.stream_schema)

    @cached_property
    def output_layout(self) -> Layout:
        return Layout(self.output_schema)

    @cached_property
    def partner_schema(self) -> pa.Schema:
        """The columns that R adds."""
        first = len(self.stream_schema)
        return pa.schema([self.output_schema.field(first + i) for i in range(len(self.columns))])

    @cached_property
    def partner_layout(self) -> Layout:
        return Layout(self.partner_schema)

    @cached_property
    def read_columns(self) -> list[str]:
        """What is read of R: the key and the chosen columns, each once."""
        return list(dict.fromkeys([*self.master_key, *self.columns]))

    def cached_schema(self, master: Master) -> pa.Schema:
        """What a cache must hold of a row of R: the key too where codes do not decide equality."""
        names = list(self.columns) if self.meeting.exact else self.read_columns
        return pa.schema([master.schema.field(n) for n in names])

    def keys(self, batch: pa.RecordBatch) -> Keys:
        """The keys of stream rows, in the master's types."""
        return self.meeting.keys([batch.column(n) for n in self.stream_key])

    def widest(self, rows: pa.RecordBatch) -> int:
        """Bytes of the widest of these stream rows, columns of fixed width aside."""
        return 0 if self.stream_layout.all_plain else widest_nbytes(rows)

    def compose(
        self,
        stream: Sequence[pa.Array],
        master: Sequence[pa.Array],
        reasons: npt.NDArray[np.uint8] | None = None,
    ) -> pa.RecordBatch:
        """Output rows; `reasons` says row by row why there is no partner (0: there is one)."""
        arrays = [*stream, *master]
        if self.on_miss == "mark":
            rows = len(arrays[0])
            arrays.append(pa.nulls(rows, pa.string()) if reasons is None else _texts(reasons))
        return pa.RecordBatch.from_arrays(arrays, schema=self.output_schema)

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the schema that the join was built for, or SchemaError."""
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaError(
                f"a join takes pyarrow.RecordBatch, not {type(batch).__name__}. Of a table, push "
                "each of table.to_batches(); of a pandas frame, pa.RecordBatch.from_pandas(frame)."
            )
        wanted, given = self.stream_schema, batch.schema
        if given.equals(wanted, check_metadata=True):
            return measurable(batch)
        if given.names == wanted.names and given.types == wanted.types:
            return measurable(pa.RecordBatch.from_arrays(batch.columns, schema=wanted))
        if given.names == wanted.names and [plain_type(t) for t in given.types] == wanted.types:
            return plain_batch(batch, wanted)
        raise SchemaError(
            f"the batch has the columns ({_columns(given)}), but the join was built for "
            f"({_columns(wanted)})."
        )

    def nulls(self, rows: int) -> list[pa.Array]:
        """The master's columns of rows without a partner."""
        return [pa.nulls(rows, t) for t in self.partner_schema.types]


def _pairs(on: object, key: tuple[str, ...]) -> list[tuple[str, str]]:
    """Pairs of stream and master column; a tuple is a pair unless it is the master's whole key."""
    if isinstance(on, Mapping):
        items: list[Any] = list(on.items())
    elif isinstance(on, tuple) and len(on) == len(key) > 1 and set(on) == set(key):
        items = list(on)
    elif isinstance(on, str | tuple):
        items = [on]
    else:
        items = list(on) if isinstance(on, Sequence) else []
    if not items or not all(map(_names_a_column, items)):
        raise SchemaError(
            f"on={on!r} names no key. Give a column name, a pair (stream column, master column), a "
            "list of these, or a dictionary from stream to master columns."
        )
    return [(i, i) if isinstance(i, str) else (i[0], i[1]) for i in items]


def _names_a_column(item: object) -> bool:
    if isinstance(item, tuple | list):
        return len(item) == 2 and all(isinstance(name, str) for name in item)
    return isinstance(item, str)


def _require_key(pairs: list[tuple[str, str]], stream: pa.Schema, master: Master) -> None:
    """Raise unless the pairs are columns of the stream with the whole key of the master."""
    key = f"the master's key is ({', '.join(master.key)})"
    sides = (
        f" The stream's columns are: {', '.join(stream.names) or 'none'}; the master's: "
        f"{', '.join(master.schema.names)}; {key}."
    )
    for ours, theirs in pairs:
        in_stream, in_key = ours in stream.names, theirs in master.key
        if in_stream and in_key:
            continue
        shared = ours == theirs
        if theirs not in master.schema.names and shared and not in_stream:
            what = f"neither the stream nor the master has a column {ours!r}."
            hint = _as_list(ours, master.key) or did_you_mean(ours, [*master.key, *stream.names])
        elif not in_stream:
            what, hint = f"the stream has no column {ours!r}.", did_you_mean(ours, stream.names)
        elif theirs in master.schema.names:
            what, hint = f"{theirs!r} is no key of the master; {key}.", ""
        else:
            what = f"the master has no column {theirs!r}."
            hint = did_you_mean(theirs, master.key)
        if shared and in_stream != in_key and len(master.key) == 1:
            column = repr(ours) if in_stream else "stream column"
            hint += f" Two names for one key are a pair: on=({column}, {master.key[0]!r})."
        elif not shared and len(pairs) == 1 and len(master.key) > 1:
            hint += f" A key of several columns is a list, not a pair: {list(master.key)!r}."
        raise SchemaError(what + hint + sides)
    if len(pairs) != len(master.key) or len({theirs for _, theirs in pairs}) < len(pairs):
        raise SchemaError(
            f"the join is on ({', '.join(theirs for _, theirs in pairs)}), which is not the "
            "master's key. Name every column of the key once, in a list; a stream column of "
            f"another name is given as a pair (stream column, master column).{sides}"
        )


def _as_list(name: str, key: tuple[str, ...]) -> str:
    """What to write when several columns were put into one text."""
    parts = [part.strip() for part in name.split(",")]
    return f" Several columns are a list: {parts!r}." if set(parts) <= set(key) else ""


def _meeting(stream: pa.Schema, stream_key: tuple[str, ...], master: Master) -> KeyMeeting:
    """How the keys meet; an error names the pair of columns that cannot."""
    ours = tuple(stream.field(name).type for name in stream_key)
    theirs = tuple(master.schema.field(name).type for name in master.key)
    for pair in zip(stream_key, master.key, ours, theirs, strict=True):
        _require_meeting(*pair)
    return KeyMeeting(ours, theirs, master.hash_seed)


def _require_meeting(ours: str, theirs: str, here: pa.DataType, there: pa.DataType) -> None:
    try:
        KeyMeeting((here,), (there,))
    except KeyTypeError as error:
        hint = ""
        if pa.types.is_string(here) or pa.types.is_string(there):
            hint = (
                " The types of a master from a CSV file are chosen when it is built: "
                f"types={{{theirs!r}: '{here}'}} (--type {theirs}={here})."
            )
        raise KeyTypeError(
            f"the stream's column {ours!r} and the master's {theirs!r}: {error}{hint}"
        ) from error


def _require_column(name: str, stream: pa.Schema, master: pa.Schema) -> None:
    if name not in master.names:
        error = SchemaError.missing_column(name, master.names, "the master")
        also = _as_list(name, tuple(master.names))
        if name in stream.names:
            also = f" {name!r} is the stream's; all of its columns are put out anyway."
        raise SchemaError(f"{error}{also}")
    _require_once(name, master, "the master")


def _require_once(name: str, schema: pa.Schema, where: str) -> None:
    found = schema.get_all_field_indices(name)
    if len(found) > 1:
        raise SchemaError(f"{where} has {len(found)} columns named {name!r}; rename all but one.")


def _require_free_names(stream: pa.Schema) -> None:
    """Raise for columns of one name, and for names of columns that joins add to the stream's."""
    for name in dict.fromkeys(stream.names):
        _require_once(name, stream, "the stream")
    taken = sorted({ARRIVAL_COLUMN, ARRIVED_AT_COLUMN, ARRIVAL} & set(stream.names))
    if taken:
        several = len(taken) > 1
        raise SchemaError(
            f"the stream has the column{'s' * several} {', '.join(map(repr, taken))}; a join keeps "
            f"by {'these names' if several else 'this name'} when a row arrived. Rename "
            f"{'them' if several else 'it'}."
        )


def _refuse_clashes(
    stream: pa.Schema, stream_key: tuple[str, ...], chosen: list[str], on_miss: OnMiss
) -> None:
    twice = sorted({n for n in chosen if chosen.count(n) > 1})
    if twice:
        raise SchemaError(f"columns has {', '.join(map(repr, twice))} twice; name each once.")
    added = [*chosen, MISS] if on_miss == "mark" else chosen
    clashes = sorted(set(stream.names) & set(added) | {n for n in added if added.count(n) > 1})
    if clashes:
        key = sorted(set(clashes) & set(stream_key))
        if key and key == clashes:
            raise SchemaError(
                f"columns has the key {', '.join(map(repr, key))}, which the stream brings along. "
                "Leave it out of columns=[…]."
            )
        raise SchemaError(
            f"the output would have two columns named {', '.join(map(repr, clashes))}. Rename the "
            "stream's, or choose the master's columns with columns=[…]."
        )


def _texts(reasons: npt.NDArray[np.uint8]) -> pa.Array:
    texts = pa.array([None, *(REASONS.get(code) for code in range(1, max(REASONS) + 1))])
    return texts.take(pa.array(reasons))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)
