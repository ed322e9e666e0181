"""CSV files as a source: types are inferred where nothing is lost by it, and are given elsewhere.

Arrow infers types from the first megabyte, and would take "00123" for the number 123. So columns
that it takes for numbers are read as text and made numbers here, a batch at a time: one whose
first values have leading zeros, or more digits than a number holds, stays text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import MasterError, OptionError, SchemaError, counted
from penstock.masters.plain_types import require_names
from penstock.masters.type_names import named_type

Types = Mapping[str, pa.DataType | str]
_DELIMITERS = {"tab": "\t", "\\t": "\t"}
_USUAL_DELIMITERS = ",;\t|"
_LOST_ZEROS = r"^[+-]?0[0-9xX]"
_LOST_DIGITS = r"^[+-]?[0-9]{17,}$"
_MOST_DIGITS = 16
_MOST_HEADER_BYTES = 64 * 1024
_OF_COLUMN = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?(.*)", re.DOTALL)
_RAGGED = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_REFUSED = re.compile(r"CSV conversion error to (.+?): invalid value '(.*)'", re.DOTALL)


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is to be read; what is not given is inferred, a comma, and UTF-8."""

    types: Types = field(default_factory=dict)
    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.types, Mapping):
            raise OptionError.out_of_range("types", self.types, "a dictionary of columns and types")
        types = {name: named_type(name, wanted) for name, wanted in self.types.items()}
        object.__setattr__(self, "types", types)
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _delimiter(self.delimiter))
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except (LookupError, TypeError) as error:
                wanted = "'utf-8', 'latin-1', 'cp1252', 'utf-16' or another that Python knows"
                raise OptionError.out_of_range("encoding", self.encoding, wanted) from error

    @property
    def given(self) -> list[str]:
        """The options that were given."""
        named = {"types": self.types, "delimiter": self.delimiter, "encoding": self.encoding}
        return [name for name, value in named.items() if value]


def _delimiter(text: object) -> str:
    one = _DELIMITERS.get(text, text) if isinstance(text, str) else ""
    if len(one) != 1 or not one.isascii() or one in '"\r\n':
        wanted = "one ASCII character, such as ';' or '|', or 'tab'"
        raise OptionError.out_of_range("delimiter", text, wanted)
    return one


def open_csv(
    path: Path, delimiter: str, compression: str | None, options: CsvOptions
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the batches of a CSV file; `delimiter` is the usual one for its name."""
    file = _CsvFile(path, options.delimiter or delimiter, compression, options)
    found = file.inferred()
    loose = {
        f.name: f.type
        for f in found
        if f.name not in options.types and (f.type == pa.int64() or f.type == pa.float64())
    }
    batches = file.batches(loose)
    first = next(batches, None)
    if first is None:
        return pa.schema([f.with_type(options.types.get(f.name, f.type)) for f in found]), batches
    kept = {name: t for name, t in loose.items() if not _loses(_bare(first.column(name)), t)}
    numbers = _Numbers(path, kept)
    schema = pa.schema([f.with_type(kept.get(f.name, f.type)) for f in first.schema])
    return schema, (numbers.convert(batch, schema) for batch in chain([first], batches))


class _CsvFile:
    """One file and how it is read; it may be opened several times."""

    def __init__(
        self, path: Path, delimiter: str, compression: str | None, options: CsvOptions
    ) -> None:
        self._path, self._compression, self._options = path, compression, options
        self._delimiter = delimiter
        self._names: list[str] = []

    def _open(self, types: Mapping[str, pa.DataType]) -> Any:
        try:
            return self._opened(types)
        except (pa.ArrowException, UnicodeError) as error:
            raise self._said(error, 0) from error

    def _opened(self, types: Mapping[str, pa.DataType], threads: bool = True) -> Any:
        from pyarrow import csv

        encoding = self._options.encoding or "utf-8"
        return csv.open_csv(
            pa.input_stream(str(self._path), compression=self._compression),
            read_options=csv.ReadOptions(encoding=encoding, use_threads=threads),
            parse_options=csv.ParseOptions(delimiter=self._delimiter),
            convert_options=csv.ConvertOptions(column_types=types),
        )

    def inferred(self) -> pa.Schema:
        """What Arrow makes of the first rows; raises if something is odd about them."""
        with self._open({}) as reader:
            found = reader.schema
        try:
            self._names = found.names
        except UnicodeError as error:
            raise self._said(error, 0) from error
        if len(self._names) == 1 and self._options.delimiter is None:
            self._require_one_column(self._names[0])
        require_names(self._names, f"the source {self._path}")
        for name in self._options.types:
            if name not in self._names:
                raise SchemaError.missing_column(name, self._names, f"the source {self._path}")
        for f in found:
            if pa.types.is_binary(f.type) and f.name not in self._options.types:
                raise self._not_text(f.name)
        return found

    def _require_one_column(self, header: str) -> None:
        other = next((d for d in _USUAL_DELIMITERS if d != self._delimiter and d in header), None)
        if other is not None:
            shown = "tab" if other == "\t" else other
            raise SchemaError(
                f"the source {self._path} would have one column, named {header!r}. If its columns "
                f"are separated by {other!r}, pass delimiter={shown!r} (--delimiter {shown!r}); if "
                f"not, pass delimiter={self._delimiter!r}."
            )

    def batches(self, as_text: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        rows = 0
        types = {**dict.fromkeys(as_text, pa.string()), **self._options.types}
        with self._open(types) as reader:
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except (pa.ArrowException, UnicodeError) as error:
                    raise self._said(error, rows) from error
                rows += batch.num_rows
                yield batch

    def _said(self, error: Exception, rows: int) -> MasterError:
        """What Arrow said, with the column's name and what to pass."""
        text = str(error).strip().rstrip(".")
        where = f" after {counted(rows, 'row')}" if rows else ""
        if isinstance(error, UnicodeError):
            return self._undecodable(text)
        if _RAGGED.match(text):
            return self._ragged(text)
        of_column = _OF_COLUMN.fullmatch(text)
        if of_column is None:
            return MasterError(f"cannot read the source {self._path}{where}: {text}.")
        name, said = self._names[int(of_column.group(1))], of_column.group(2)
        if "invalid UTF8" in said:
            return self._not_text(name)
        refused = _REFUSED.fullmatch(said)
        if refused is None:
            return MasterError(
                f"cannot read column {name!r} of the source {self._path}{where}: {said}. Pass "
                f"{_how(name, 'string')}, or another type that takes all of its values."
            )
        wanted, value = refused.groups()
        why = "as was asked" if name in self._options.types else "as its first rows were"
        was = "empty, as in all of its first rows" if wanted == "null" else f"{wanted}, {why}"
        return _no_such_value(self._path, name, was, f"a row behind row {rows:,}", value)

    def _ragged(self, text: str) -> MasterError:
        """Which row has other columns than the header: Arrow counts them in one thread only."""
        try:
            with self._opened({}, threads=False) as reader:
                for _ in reader:
                    pass
        except (pa.ArrowException, UnicodeError) as error:
            text = str(error)
        found = _RAGGED.match(text)
        if found is None:
            return MasterError(f"cannot read the source {self._path}: {text}.")
        if found.group(2) == "1" and self._options.delimiter is None:
            self._require_one_column(self._first_line())
        row = f"its row {int(found.group(1)):,}" if found.group(1) else "a row"
        header, got = (counted(int(n), "column") for n in found.group(2, 3))
        return MasterError(
            f"cannot read the source {self._path}: {row} (the header is row 1) has {got}, the "
            f"header {header}. Correct the row, or put values with {self._delimiter!r} in them in "
            'quotes ("); if something else separates the columns, pass it as delimiter '
            "(--delimiter)."
        )

    def _first_line(self) -> str:
        with pa.input_stream(str(self._path), compression=self._compression) as file:
            text = file.read(_MOST_HEADER_BYTES)
        lines = text.decode(self._options.encoding or "utf-8", "replace").splitlines()
        return next(iter(lines), "")

    def _not_text(self, name: str) -> MasterError:
        return MasterError(
            f"column {name!r} of the source {self._path} has bytes that are not "
            f"{self._options.encoding or 'UTF-8'}. Pass its encoding, such as encoding='latin-1' "
            f"or 'cp1252' (--encoding latin-1), or {_how(name, 'binary')} to keep bytes."
        )

    def _undecodable(self, text: str) -> MasterError:
        return MasterError(
            f"the source {self._path} is not in {self._options.encoding or 'UTF-8'}: {text}. Pass "
            "its encoding, such as encoding='latin-1', 'cp1252' or 'utf-16' (--encoding latin-1)."
        )


class _Numbers:
    """Makes numbers of columns that were read as text; counts rows, to say where one is none."""

    def __init__(self, path: Path, types: Mapping[str, pa.DataType]) -> None:
        self._path, self._types, self._rows = path, types, 0

    def convert(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        columns = [
            self._numbers(column, name) if name in self._types else column
            for name, column in zip(schema.names, batch.columns, strict=True)
        ]
        self._rows += batch.num_rows
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _numbers(self, column: pa.Array, name: str) -> pa.Array:
        try:
            return self._cast(column, name)
        except pa.ArrowInvalid:
            column = _bare(column)
        try:
            return self._cast(column, name)
        except pa.ArrowInvalid as error:
            value = re.search(r"'(.*)'", str(error), re.DOTALL)
            raise self._refused(column, name, value.group(1) if value else "") from error

    def _cast(self, column: pa.Array, name: str) -> pa.Array:
        numbers = column.cast(self._types[name])
        lossy = _loses(column, self._types[name])
        if lossy is not None:
            raise self._refused(column, name, lossy)
        return numbers

    def _refused(self, column: pa.Array, name: str, value: str) -> MasterError:
        row = self._rows + pc.index(column, value).as_py() + 1
        was = f"{self._types[name]}, as its first rows were"
        return _no_such_value(self._path, name, was, f"row {row:,}", value)


def _no_such_value(path: Path, name: str, was: str, where: str, value: str) -> MasterError:
    shown = value if len(value) <= 60 else f"{value[:60]}…"
    return MasterError(
        f"column {name!r} of the source {path} was to be {was}, but {where} has {shown!r} there. "
        f"Pass {_how(name, 'string')}, or another type that takes all of its values."
    )


def _how(name: str, wanted: str) -> str:
    return f"types={{{name!r}: {wanted!r}}} (--type {name}={wanted})"


def _loses(column: pa.Array, wanted: pa.DataType) -> str | None:
    """The first value that would not come back from a number as it was; None if there is none."""
    zero = reduce(pc.or_, (pc.starts_with(column, sign + "0") for sign in ("", "-", "+")))
    length = pc.binary_length(column)
    # Few values are looked at more closely than this.
    if wanted == pa.int64():
        odd, lost = pc.and_(zero, pc.greater(length, 1)), _LOST_ZEROS
    else:
        odd = pc.or_(zero, pc.greater(length, _MOST_DIGITS))
        lost = f"{_LOST_ZEROS}|{_LOST_DIGITS}"
    suspects = column.filter(odd)
    if len(suspects):
        suspects = suspects.filter(pc.match_substring_regex(suspects, lost))
    return suspects[0].as_py() if len(suspects) else None


def _bare(column: pa.Array) -> pa.Array:
    """The texts without spaces around them, null where one stands for null, as Arrow has it."""
    from pyarrow import csv

    spelt = pa.array(csv.ConvertOptions().null_values)
    missing = pc.is_in(column, value_set=spelt)
    return pc.if_else(missing, pa.scalar(None, pa.string()), pc.ascii_trim_whitespace(column))
