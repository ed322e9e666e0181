"""A statement's answer from MySQL's protocol to Arrow, without an object for each value.

PyMySQL makes the connection and reads an answer's columns. The rows after them are read here: as
bytes into one buffer, in which kernels find packets and values. A piece of the answer that fills
the buffer becomes columns of Arrow, and the buffer is used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]

BUFFER_BYTES = 1 << 18
CELL_BYTES = 16
"""What is noted of each value that is in the buffer, and of the text that it is made from."""
_LONGEST = 0xFFFFFF
"""Bytes of a packet that another one continues."""
_LOST = 2013
_MORE, _END, _ERROR, _LONG = 0, 1, 2, 3
NO_DAY = -(2**31)


class Answered(NamedTuple):
    """A column of an answer, as the server calls it."""

    name: str
    code: int
    """Its type, a number of the protocol's."""
    charset: int
    """Its character set; 63 is none."""


class Cells(NamedTuple):
    """The values of a column in a piece of an answer; a null's length is -1."""

    data: Bytes
    starts: Int32s
    lengths: Int32s


class BrokenAnswerError(Exception):
    """Bytes that are no answer: the connection is of no use any more."""


Convert = Callable[[Cells], pa.Array]
TypesOf = Callable[[list[Answered]], Sequence[pa.DataType]]


@njit(cache=True, nogil=True)
def _scan(data, at, filled):  # type: ignore[no-untyped-def]
    """Whole rows from `at` on: how many, where they end, and what comes then."""
    rows = 0
    while at + 4 <= filled:
        length = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16
        if length == _LONGEST:
            return rows, at, _LONG
        if at + 4 + length > filled:
            break
        first = data[at + 4] if length else 0
        if first == 0xFF:
            return rows, at, _ERROR
        if first == 0xFE and length < 9:
            return rows, at, _END
        at += 4 + length
        rows += 1
    return rows, at, _MORE


@njit(cache=True, nogil=True)
def _cut_row(data, at, end, starts, lengths, row):  # type: ignore[no-untyped-def]
    """Note where each value of a row lies; whether they fill the row."""
    for column in range(starts.shape[0]):
        if at >= end:
            return False
        first, at = np.int64(data[at]), at + 1
        if first == 251:
            starts[column, row], lengths[column, row] = at, -1
            continue
        width = 0 if first < 251 else 2 if first == 252 else 3 if first == 253 else 8
        if at + width > end:
            return False
        length = first if width == 0 else np.int64(0)
        for byte in range(width):
            length |= np.int64(data[at + byte]) << (8 * byte)
        at += width
        if length < 0 or length > end - at:
            return False
        starts[column, row], lengths[column, row] = at, length
        at += length
    return at == end


@njit(cache=True, nogil=True)
def _cut(data, at, starts, lengths):  # type: ignore[no-untyped-def]
    for row in range(starts.shape[1]):
        length = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16
        if not _cut_row(data, at + 4, at + 4 + length, starts, lengths, row):
            return False
        at += 4 + length
    return True


@njit(cache=True, nogil=True)
def _gather(data, starts, lengths, offsets, values):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        to = offsets[row]
        for byte in range(max(lengths[row], 0)):
            values[to + byte] = data[starts[row] + byte]


def texts(cells: Cells, kind: pa.DataType) -> pa.Array:
    """The values as they are, in memory of their own."""
    rows = len(cells.starts)
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(np.maximum(cells.lengths, 0), out=offsets[1:])
    values = np.empty(int(offsets[-1]), dtype=np.uint8)
    _gather(cells.data, cells.starts, cells.lengths, offsets, values)
    buffers = [validity(cells.lengths >= 0), pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, rows, buffers)


def validity(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


@njit(cache=True, nogil=True)
def _number(data, at, count):  # type: ignore[no-untyped-def]
    """The number that so many digits are; -1 if they are none."""
    number = 0
    for byte in range(at, at + count):
        if data[byte] < 48 or data[byte] > 57:
            return -1
        number = number * 10 + (data[byte] - 48)
    return number


@njit(cache=True, nogil=True)
def days_of(year, month, day):  # type: ignore[no-untyped-def]
    """Days since 1970; `NO_DAY` for what is no day of the calendar."""
    if year < 1 or month < 1 or month > 12 or day < 1:
        return NO_DAY
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    last = 30 if month in (4, 6, 9, 11) else 31
    if month == 2:
        last = 29 if leap else 28
    if day > last:
        return NO_DAY
    # Days are counted from March on, so that the leap day is a year's last.
    years = year - 1 if month <= 2 else year
    months = month + 9 if month <= 2 else month - 3
    days = 365 * years + years // 4 - years // 100 + years // 400
    return days + (153 * months + 2) // 5 + day - 1 - 719_468


@njit(cache=True, nogil=True)
def _moments(data, starts, lengths, micros, valid):  # type: ignore[no-untyped-def]
    """`1999-12-31[ 23:59:59[.999999]]` as microseconds; what is no day of the calendar is null."""
    for row in range(starts.size):
        at, length = starts[row], lengths[row]
        valid[row], micros[row] = False, 0
        if length < 10:
            continue
        year, month, day = _number(data, at, 4), _number(data, at + 5, 2), _number(data, at + 8, 2)
        days = days_of(year, month, day)
        if days == NO_DAY:
            continue
        seconds, fraction = 0, 0
        if length >= 19:
            hour = _number(data, at + 11, 2)
            minute, second = _number(data, at + 14, 2), _number(data, at + 17, 2)
            if hour < 0 or minute < 0 or second < 0:
                continue
            seconds = hour * 3600 + minute * 60 + second
        if length > 20:
            digits = min(length - 20, 6)
            fraction = _number(data, at + 20, digits) * 10 ** (6 - digits)
        micros[row] = (days * 86_400 + seconds) * 1_000_000 + fraction
        valid[row] = True


def _times(cells: Cells, kind: pa.DataType) -> pa.Array:
    rows = len(cells.starts)
    micros, valid = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.bool_)
    _moments(*cells, micros, valid)
    if pa.types.is_date32(kind):
        values = pa.py_buffer((micros // 86_400_000_000).astype(np.int32))
    else:
        values = pa.py_buffer(micros)
    return pa.Array.from_buffers(kind, rows, [validity(valid), values])


def converter(kind: pa.DataType) -> Convert:
    """What makes columns of a type from the protocol's texts."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return lambda cells: texts(cells, kind)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return lambda cells: _times(cells, kind)
    if pa.types.is_boolean(kind):
        return lambda cells: texts(cells, pa.string()).cast(pa.int8()).cast(kind)
    if pa.types.is_float32(kind):
        return lambda cells: texts(cells, pa.string()).cast(pa.float64()).cast(kind)
    return lambda cells: texts(cells, pa.string()).cast(kind)


class AnswerReader:
    """Reads answers through one buffer, which grows for a row that is longer."""

    def __init__(self) -> None:
        self._buffer = np.empty(BUFFER_BYTES, dtype=np.uint8)

    def ask(self, connection: Any, statement: str | bytes, types: TypesOf) -> pa.Table:
        """The rows that a statement gives, in the types that are chosen by its columns.

        Raises the server's error, when rows were read already too; after any other error the
        connection is in the middle of an answer.
        """
        from pymysql.constants import COMMAND

        connection._execute_command(COMMAND.COM_QUERY, statement)
        answered = _answered(connection)
        kinds = types(answered)
        schema = pa.schema([pa.field(a.name, k) for a, k in zip(answered, kinds, strict=True)])
        converters = [converter(kind) for kind in kinds]
        batches = []
        for piece in self._pieces(connection, len(answered)) if answered else ():
            arrays = [convert(cells) for convert, cells in zip(converters, piece, strict=True)]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return pa.Table.from_batches(batches, schema)

    def _pieces(self, connection: Any, width: int) -> Iterator[list[Cells]]:
        """The answer's rows, as many at a time as the buffer holds."""
        if len(self._buffer) > BUFFER_BYTES:
            self._buffer = np.empty(BUFFER_BYTES, dtype=np.uint8)
        # What the driver has read beyond the columns; from then on its own buffer is empty.
        begun = _received(lambda: connection._rfile.read1(BUFFER_BYTES))
        rows = at = 0
        filled = len(begun)
        self._buffer[:filled] = np.frombuffer(begun, dtype=np.uint8)
        while True:
            more, at, state = _scan(self._buffer, at, filled)
            rows += more
            if rows and (state != _MORE or filled == len(self._buffer)):
                yield _cells(self._buffer, rows, width)
            elif state == _MORE and filled < len(self._buffer):
                filled += self._receive(connection, filled)
                continue
            elif state == _MORE:
                self._grow()
                continue
            # What is not read yet moves to the buffer's beginning.
            self._buffer[: filled - at] = self._buffer[at:filled].copy()
            rows, at, filled = 0, 0, filled - at
            if state == _LONG:
                row, filled = self._long_row(connection, filled)
                yield _cells_of_row(row, width)
            elif state == _END:
                return
            elif state == _ERROR:
                raise_error(bytes(self._buffer[4:filled]))

    def _receive(self, connection: Any, filled: int) -> int:
        """Read what has come, behind the buffer's first `filled` bytes."""
        rest = self._buffer[filled:].data
        return int(_received(lambda: connection._rfile.raw.readinto(rest)))

    def _grow(self) -> None:
        self._buffer = np.concatenate([self._buffer, np.empty_like(self._buffer)])

    def _long_row(self, connection: Any, filled: int) -> tuple[Bytes, int]:
        """A row of several packets, which begins the buffer, and how many bytes are behind it."""
        parts, at, length = [], 0, _LONGEST
        while length == _LONGEST:
            filled = self._need(connection, at + 4, filled)
            length = int.from_bytes(self._buffer[at : at + 3].tobytes(), "little")
            filled = self._need(connection, at + 4 + length, filled)
            parts.append(self._buffer[at + 4 : at + 4 + length])
            at += 4 + length
        row = np.concatenate(parts)
        self._buffer[: filled - at] = self._buffer[at:filled].copy()
        return row, filled - at

    def _need(self, connection: Any, count: int, filled: int) -> int:
        while filled < count:
            if filled == len(self._buffer):
                self._grow()
            filled += self._receive(connection, filled)
        return filled


def _received(receive: Callable[[], Any]) -> Any:
    from pymysql.err import OperationalError

    try:
        found = receive()
    except OSError as error:
        raise OperationalError(_LOST, f"the connection was lost in an answer ({error})") from error
    if not found:
        raise OperationalError(_LOST, "the connection was lost in an answer")
    return found


def _answered(connection: Any) -> list[Answered]:
    """The columns of the answer that comes; none of a statement that gives no rows."""
    from pymysql.protocol import FieldDescriptorPacket

    first = connection._read_packet()
    if first.is_ok_packet():
        return []
    count = None if first.is_load_local_packet() else first.read_length_encoded_integer()
    if not count:
        raise BrokenAnswerError("the server answered with something else than rows")
    fields = [connection._read_packet(FieldDescriptorPacket) for _ in range(count)]
    connection._read_packet()
    return [Answered(f.name, f.type_code, f.charsetnr) for f in fields]


def _cells(data: Bytes, rows: int, width: int) -> list[Cells]:
    starts, lengths = np.empty((2, width, rows), dtype=np.int32)
    if not _cut(data, 0, starts, lengths):
        raise BrokenAnswerError("a row has not the columns that were announced")
    return [Cells(data, starts[i], lengths[i]) for i in range(width)]


def _cells_of_row(row: Bytes, width: int) -> list[Cells]:
    starts, lengths = np.empty((2, width, 1), dtype=np.int32)
    if not _cut_row(row, 0, len(row), starts, lengths, 0):
        raise BrokenAnswerError("a row has not the columns that were announced")
    return [Cells(row, starts[i], lengths[i]) for i in range(width)]


def raise_error(packet: bytes) -> None:
    """Raise the error that a packet of the server tells."""
    from pymysql.err import raise_mysql_exception

    raise_mysql_exception(packet)
