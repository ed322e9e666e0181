"""Keys: which types may be keys, how the stream's meet the master's, and their 64-bit codes.

Every key has a *code*, a signed 64-bit integer. For integers, dates, timestamps and decimals of up
to 18 digits the code is the value, in the key's own order (`exact`: equal codes are equal keys).
For strings, binaries, wider decimals and composites the code is XXH64 of the bytes, and whoever
finds two equal codes must still compare the keys. Masters sort by code; caches find by code.

The two sides meet in the master's type, by lossless widening only. A value of the stream that the
master's type cannot hold is a miss, never an overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.copying import take
from penstock.errors import KeyTypeError
from penstock.hashing import hash_bytes, hash_words

HASH_SEED = 42
VALID, NULL_KEY, NO_SUCH_ROW = 0, 1, 2
"""States of a stream row's key: usable, null, or a value that the master's type cannot hold."""

_INT64_MIN = np.int64(-(2**63))
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_MS = 86_400_000

Int64s = npt.NDArray[np.int64]
Columns = Sequence[pa.Array]


def _plain_type(t: pa.DataType) -> pa.DataType:
    return t.value_type if pa.types.is_dictionary(t) else t


def _plain(column: pa.Array) -> pa.Array:
    """The column with the values that a dictionary stands for, so that its nulls are seen too."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def family(key_type: pa.DataType) -> str:
    """What a type is as a key: integer, decimal, date, timestamp, string or binary."""
    t = _plain_type(key_type)
    if pa.types.is_integer(t):
        return "integer"
    if pa.types.is_decimal(t) and t.scale >= 0:  # Arrow cannot compare those below
        return "decimal"
    if pa.types.is_date(t):
        return "date"
    if pa.types.is_timestamp(t):
        return "timestamp" if t.tz is None else "timestamp with time zone"
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return "string"
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return "binary"
    if pa.types.is_fixed_size_binary(t):
        return f"binary of {t.byte_width} bytes"
    raise KeyTypeError(
        f"{key_type} cannot be a join key. Keys are integers, decimals, strings, binaries, dates, "
        "timestamps, or several of these; cast the column first (floats never compare safely)."
    )


def is_exact(key_types: Sequence[pa.DataType]) -> bool:
    """Whether equal codes are equal keys."""
    if len(key_types) != 1:
        return False
    kind = family(key_types[0])
    if kind == "decimal":
        return bool(_plain_type(key_types[0]).precision <= 18)
    return kind in ("integer", "date") or kind.startswith("timestamp")


def codes_of(columns: Columns, seed: int = HASH_SEED) -> Int64s:
    """The codes of keys given in the master's types; where a key is null its code means nothing."""
    columns = [_plain(c) for c in columns]
    if is_exact([c.type for c in columns]):
        return _values(columns[0])
    hashes = np.full(len(columns[0]), seed, dtype=np.uint64)
    for column in columns:
        if is_exact([column.type]):
            hashes = hash_words(_values(column), hashes)
        else:
            hashes = hash_bytes(*value_spans(column), hashes)
    return hashes.view(np.int64)


def columns_of(codes: Int64s, key_types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The keys of exact codes: the inverse of `codes_of`."""
    (t,) = key_types
    if pa.types.is_decimal(t):
        words = np.stack([codes, codes >> np.int64(63)], axis=1)
        wide = pa.decimal128(38, t.scale)
        column = pa.Array.from_buffers(wide, len(codes), [None, pa.py_buffer(words)])
        return [column.cast(t)]
    if pa.types.is_uint64(t):
        return [pa.array((codes ^ _INT64_MIN).view(np.uint64))]
    if pa.types.is_integer(t):
        return [pa.array(codes).cast(t)]
    if pa.types.is_date32(t):
        return [pa.array(codes.astype(np.int32)).cast(t)]
    return [pa.Array.from_buffers(t, len(codes), [None, pa.py_buffer(np.ascontiguousarray(codes))])]


def equal_rows(left: Columns, right: Columns) -> npt.NDArray[np.bool_]:
    same = np.ones(len(left[0]), dtype=np.bool_)
    for ours, theirs in zip(left, right, strict=True):
        same &= pc.fill_null(pc.equal(ours, theirs), False).to_numpy(zero_copy_only=False)
    return same


def any_null(columns: Columns) -> npt.NDArray[np.bool_] | None:
    """Rows with a null in any of the columns, or None where there is none."""
    found: npt.NDArray[np.bool_] | None = None
    for column in columns:
        if column.null_count:
            nulls = column.is_null().to_numpy(zero_copy_only=False)
            found = nulls if found is None else found | nulls
    return found


def fixed_values(column: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """A fixed-width column's values as they lie in memory, nulls included."""
    width = np.dtype(dtype).itemsize
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), dtype=dtype)
    return np.frombuffer(data, dtype=dtype, count=len(column), offset=column.offset * width)


def _values(column: pa.Array) -> Int64s:
    """An exact key column as 64-bit integers in the key's own order."""
    t = column.type
    if pa.types.is_decimal(t):
        if not pa.types.is_decimal128(t):
            column = column.cast(pa.decimal128(t.precision, t.scale))
        words = fixed_values(column, np.dtype("V16")).view(np.int64).reshape(-1, 2)
        return np.ascontiguousarray(words[:, 0])
    if pa.types.is_uint64(t):
        return fixed_values(column, np.int64) ^ _INT64_MIN
    if pa.types.is_date32(t):
        return fixed_values(column, np.int32).astype(np.int64)
    if pa.types.is_integer(t):
        values = fixed_values(column, _integer_dtype(t))
        return values if values.dtype == np.int64 else values.astype(np.int64)  # type: ignore[return-value]
    return fixed_values(column, np.int64)  # type: ignore[return-value]


def value_spans(column: pa.Array) -> tuple[npt.NDArray[np.uint8], Int64s, Int64s]:
    """Where each value's bytes lie: the data, each start, each length."""
    t, n = column.type, len(column)
    if pa.types.is_decimal(t):
        column = (
            column.cast(pa.decimal256(76, t.scale))
            if t.precision > 38
            else column.cast(pa.decimal128(38, t.scale))
        )
    elif pa.types.is_string_view(t) or pa.types.is_binary_view(t):
        column = column.cast(pa.large_binary())
    t = column.type
    if pa.types.is_decimal(t) or pa.types.is_fixed_size_binary(t):
        width = t.byte_width
        data = column.buffers()[1]
        first = column.offset * width
        starts = first + np.arange(n, dtype=np.int64) * width
        lengths = np.full(n, width, dtype=np.int64)
    else:
        large = pa.types.is_large_string(t) or pa.types.is_large_binary(t)
        dtype = np.dtype(np.int64 if large else np.int32)
        _, offsets_buffer, data = column.buffers()
        if offsets_buffer is None or n == 0:
            starts = lengths = np.zeros(n, dtype=np.int64)
        else:
            offsets = np.frombuffer(
                offsets_buffer, dtype=dtype, count=n + 1, offset=column.offset * dtype.itemsize
            ).astype(np.int64)
            starts, lengths = offsets[:-1], np.diff(offsets)
    if data is None or data.size == 0:
        return np.zeros(1, dtype=np.uint8), starts, lengths
    return np.frombuffer(data, dtype=np.uint8), starts, lengths


class Keys:
    """The keys of some rows in the master's types, with each one's state and, when asked, code."""

    def __init__(
        self, columns: Columns, state: npt.NDArray[np.uint8] | None = None, seed: int = HASH_SEED
    ) -> None:
        self._columns: tuple[pa.Array, ...] | Callable[[], Columns] = tuple(columns)
        self.seed = seed
        self.state = state
        """One of VALID, NULL_KEY, NO_SUCH_ROW per row; None when every key is valid."""

    @classmethod
    def of_codes(cls, codes: Int64s, columns: Callable[[], Columns], seed: int) -> Keys:
        """Valid keys whose codes are known; the columns are made when someone asks for them."""
        keys = cls([], None, seed)
        keys.codes = codes
        keys._columns = columns
        return keys

    @property
    def columns(self) -> tuple[pa.Array, ...]:
        """The key columns, in the master's types."""
        if callable(self._columns):
            self._columns = tuple(self._columns())
        return self._columns

    def __len__(self) -> int:
        return len(self.codes) if callable(self._columns) else len(self._columns[0])

    @cached_property
    def codes(self) -> Int64s:
        return codes_of(self.columns, self.seed)

    def take(self, rows: Int64s) -> Keys:
        """The keys of these rows, all valid; their codes are not computed again."""
        return Keys.of_codes(
            self.codes[rows], lambda: [take(c, rows) for c in self.columns], self.seed
        )

    @classmethod
    def of(cls, keys: Keys | pa.Array | pa.ChunkedArray, seed: int = HASH_SEED) -> Keys:
        """Accept what a person would pass: keys, an array, or a struct array of several columns."""
        if isinstance(keys, Keys):
            return keys
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        parts = keys.flatten() if pa.types.is_struct(keys.type) else [keys]
        columns = [_plain(c) for c in parts]
        nulls = any_null(columns)
        return cls(columns, None if nulls is None else nulls.astype(np.uint8) * NULL_KEY, seed)


@dataclass(frozen=True)
class KeyMeeting:
    """How a stream's key columns become a master's; made once, and errors are raised then."""

    stream_types: tuple[pa.DataType, ...]
    master_types: tuple[pa.DataType, ...]
    seed: int = HASH_SEED

    def __post_init__(self) -> None:
        if len(self.stream_types) != len(self.master_types):
            raise KeyTypeError(
                f"the join names {len(self.stream_types)} key columns but the master's key has "
                f"{len(self.master_types)}; name a stream column for each."
            )
        for ours, theirs in zip(self.stream_types, self.master_types, strict=True):
            kinds = {family(ours), family(theirs)}
            if len(kinds) > 1 and kinds != {"integer", "decimal"}:
                raise KeyTypeError(
                    f"a stream key of type {ours} cannot meet a master key of type {theirs} "
                    "without loss. Cast one of them so that both are of one kind."
                )

    @property
    def exact(self) -> bool:
        return is_exact(self.master_types)

    def master_codes(self, columns: Columns) -> Int64s:
        """The codes of the master's own key columns."""
        return codes_of(columns, self.seed)

    def keys(self, columns: Columns) -> Keys:
        """The stream's key columns as keys of the master."""
        columns = [_plain(c) for c in columns]
        nulls = any_null(columns)
        met = [_meet(c, t) for c, t in zip(columns, self.master_types, strict=True)]
        unfit = any_null(met)
        if unfit is None:
            return Keys(met, None, self.seed)
        state = np.where(unfit, np.uint8(NO_SUCH_ROW), np.uint8(VALID))
        if nulls is not None:
            state[nulls] = NULL_KEY
        return Keys(met, state, self.seed)


def _meet(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The column in the wanted type, with null where a value does not fit."""
    have = column.type
    if have == wanted:
        return column
    kind = family(have)
    if kind == "integer" and pa.types.is_integer(wanted):
        return _null_unless(_within(column, *_integer_range(wanted)), column).cast(wanted)
    if kind in ("integer", "decimal"):
        return _meet_decimal(column, wanted)
    if kind == "date":
        if pa.types.is_date32(wanted):
            days, rest = np.divmod(fixed_values(column, np.int64), _DAY_MS)
            fits = (rest == 0) & (days >= -(2**31)) & (days < 2**31)
            column = _null_unless(pa.array(fits), column)
        return column.cast(wanted)
    if kind.startswith("timestamp"):
        return _meet_timestamp(column, wanted)
    return column.cast(wanted)


def _null_unless(fits: pa.Array, column: pa.Array) -> pa.Array:
    return pc.if_else(fits, column, pa.scalar(None, type=column.type))


def _integer_dtype(t: pa.DataType) -> np.dtype[np.integer]:
    # Arrow's own to_pandas_dtype needs pandas in some versions.
    return np.dtype(f"{'u' if pa.types.is_unsigned_integer(t) else ''}int{t.bit_width}")


def _integer_range(t: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(_integer_dtype(t))
    return int(info.min), int(info.max)


def _within(column: pa.Array, low: int, high: int) -> pa.Array:
    least, most = _integer_range(column.type)
    return pc.and_(
        pc.greater_equal(column, pa.scalar(max(low, least), column.type)),
        pc.less_equal(column, pa.scalar(min(high, most), column.type)),
    )


def _meet_decimal(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Through decimals of 76 digits, in which both sides are exact."""
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))
    if pa.types.is_integer(wanted):
        scale, low, high = 0, *_integer_range(wanted)
    else:
        scale, high = wanted.scale, 10**wanted.precision - 1
        low = -high
    # A whole part that the wanted type cannot hold might not fit 76 digits at the other's scale.
    whole = (max(high, -low) // 10**scale + 1) * 10**column.type.scale
    if whole < 10**76:
        bound = _unscaled(whole, pa.decimal256(76, column.type.scale))
        column = column.cast(bound.type)
        inside = pc.and_(pc.less(column, bound), pc.greater(column, pc.negate(bound)))
        column = _null_unless(inside, column)
    wide_scale = max(column.type.scale, scale)
    wide = column.cast(pa.decimal256(76, wide_scale))
    narrow = wide.cast(pa.decimal256(76, scale), safe=False)
    fits = pc.equal(narrow.cast(pa.decimal256(76, wide_scale)), wide)
    unscaled = pa.decimal256(76, scale)
    for compare, limit in ((pc.less_equal, high), (pc.greater_equal, low)):
        fits = pc.and_(fits, compare(narrow, _unscaled(limit, unscaled)))
    kept = _null_unless(fits, narrow)
    if pa.types.is_integer(wanted):
        return kept.cast(pa.decimal128(20, 0)).cast(wanted)
    return kept.cast(wanted)


def _unscaled(value: int, t: pa.DataType) -> pa.Scalar:
    """The decimal whose digits, without the point, are `value`."""
    data = value.to_bytes(32, "little", signed=True)
    return pa.Array.from_buffers(t, 1, [None, pa.py_buffer(data)])[0]


def _meet_timestamp(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    have, want = _PER_SECOND[column.type.unit], _PER_SECOND[wanted.unit]
    values: Int64s = fixed_values(column, np.int64)  # type: ignore[assignment]
    if want >= have:
        factor = want // have
        fits = (values <= (2**63 - 1) // factor) & (values >= -(2**63 // factor))
        met = np.where(fits, values, 0) * factor
    else:
        met, rest = np.divmod(values, have // want)
        fits = rest == 0
    valid = fits if column.null_count == 0 else fits & column.is_valid().to_numpy(False)
    return pa.array(met, pa.int64(), mask=~valid).cast(wanted)
