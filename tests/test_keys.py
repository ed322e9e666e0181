"""Keys: codes, the meeting of two types, and what can never meet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import KeyTypeError
from penstock.keys import (
    NO_SUCH_ROW,
    NULL_KEY,
    VALID,
    KeyMeeting,
    Keys,
    any_null,
    codes_of,
    family,
    is_exact,
)

INTEGERS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
]
DECIMALS = [
    pa.decimal32(9, 2),
    pa.decimal64(18, 0),
    pa.decimal128(18, 6),
    pa.decimal128(5, 0),
    pa.decimal128(38, 0),
    pa.decimal128(38, 38),
    pa.decimal256(76, 0),
    pa.decimal256(76, 70),
    pa.decimal256(12, 3),
]
UNITS = ["s", "ms", "us", "ns"]
STRINGS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
OTHERS = [pa.bool_(), pa.null(), pa.list_(pa.int64()), pa.duration("s"), pa.time64("us")]
OTHERS += [pa.decimal128(4, -2)]


def meet(column: pa.Array, wanted: pa.DataType) -> tuple[list[Any], list[int]]:
    """The values and states of a stream column as keys of the wanted type."""
    keys = KeyMeeting((column.type,), (wanted,)).keys([column])
    assert keys.columns[0].type == wanted
    states = [VALID] * len(keys) if keys.state is None else keys.state.tolist()
    return keys.columns[0].to_pylist(), states


def expect(column: pa.Array, wanted: pa.DataType, fits: Callable[[Any], Any]) -> None:
    """`fits` gives the value in the wanted type, or None where it cannot be held."""
    values, states = meet(column, wanted)
    for before, after, state in zip(column.to_pylist(), values, states, strict=True):
        if before is None:
            assert (after, state) == (None, NULL_KEY)
        else:
            expected = fits(before)
            assert after == expected, (before, column.type, wanted)
            assert state == (NO_SUCH_ROW if expected is None else VALID)


def integer_range(t: pa.DataType) -> tuple[int, int]:
    if pa.types.is_unsigned_integer(t):
        return 0, 2**t.bit_width - 1
    return -(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1


def unscaled(value: Decimal | int, scale: int) -> int | None:
    """The digits of a value at a scale, or None where it has more digits after the point."""
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits))) * (-1 if sign else 1)
    shift = exponent + scale
    if shift >= 0:
        return whole * 10**shift
    quotient, rest = divmod(whole, 10**-shift)
    return None if rest else quotient


def scaled(digits: int, scale: int) -> Decimal:
    """Exact at any length, unlike arithmetic in a context."""
    text = tuple(map(int, str(abs(digits))))
    return Decimal((int(digits < 0), text, -scale))


def fits_decimal(t: pa.DataType) -> Callable[[Any], Any]:
    def fits(value: Any) -> Any:
        digits = unscaled(value, t.scale)
        return None if digits is None or abs(digits) >= 10**t.precision else Decimal(value)

    return fits


def decimals_of(t: pa.DataType) -> list[Decimal | None]:
    """Edges of the type and values that other types share."""
    most = 10**t.precision - 1
    digits = {0, 1, -1, 7, most, -most, most // 10 * 10}
    digits |= {n * 10**t.scale for n in (1, -2, 255, 256, 32768)}
    kept = [scaled(d, t.scale) for d in sorted(digits) if abs(d) <= most]
    return [*kept, None]


# --- which types -----------------------------------------------------------------------------


@pytest.mark.parametrize("t", [*FLOATS, *OTHERS], ids=str)
def test_refuses_types_that_cannot_be_keys(t: pa.DataType) -> None:
    with pytest.raises(KeyTypeError, match="cannot be a join key"):
        family(t)
    with pytest.raises(KeyTypeError, match="cannot be a join key"):
        KeyMeeting((pa.int64(),), (t,))
    with pytest.raises(KeyTypeError, match="cannot be a join key"):
        KeyMeeting((t,), (pa.int64(),))


def test_types_of_different_kinds_do_not_meet() -> None:
    kinds = {
        "number": [*INTEGERS, *DECIMALS],
        "date": [pa.date32(), pa.date64()],
        "timestamp": [pa.timestamp(u) for u in UNITS],
        "instant": [pa.timestamp(u, "UTC") for u in UNITS],
        "string": STRINGS,
        "binary": BINARIES,
        "three bytes": [pa.binary(3)],
        "four bytes": [pa.binary(4)],
    }
    checked = 0
    for (ours, stream_types), (theirs, master_types) in product(kinds.items(), repeat=2):
        for a, b in product(stream_types, master_types):
            if ours == theirs:
                KeyMeeting((a,), (b,))
            else:
                with pytest.raises(KeyTypeError, match="cannot meet"):
                    KeyMeeting((a,), (b,))
            checked += 1
    assert checked == sum(len(v) for v in kinds.values()) ** 2


def test_the_number_of_key_columns_must_agree() -> None:
    with pytest.raises(KeyTypeError, match="names 1 key columns but the master's key has 2"):
        KeyMeeting((pa.int64(),), (pa.int64(), pa.int64()))


@pytest.mark.parametrize(
    ("types", "exact"),
    [
        ([pa.int8()], True),
        ([pa.uint64()], True),
        ([pa.date32()], True),
        ([pa.date64()], True),
        ([pa.timestamp("ns", "UTC")], True),
        ([pa.decimal128(18, 4)], True),
        ([pa.decimal128(19, 4)], False),
        ([pa.dictionary(pa.int8(), pa.decimal128(18, 4))], True),
        ([pa.dictionary(pa.int8(), pa.string())], False),
        ([pa.string()], False),
        ([pa.binary(4)], False),
        ([pa.int64(), pa.int64()], False),
    ],
    ids=str,
)
def test_which_codes_are_exact(types: list[pa.DataType], exact: bool) -> None:
    assert is_exact(types) is exact


# --- the two sides meet ----------------------------------------------------------------------


@pytest.mark.parametrize("theirs", INTEGERS, ids=str)
@pytest.mark.parametrize("ours", INTEGERS, ids=str)
def test_integers_meet_integers(ours: pa.DataType, theirs: pa.DataType) -> None:
    low, high = integer_range(ours)
    edges = {edge for t in INTEGERS for edge in integer_range(t)}
    near = {e + d for e in edges for d in (-1, 0, 1)}
    column = pa.array([*sorted(v for v in near if low <= v <= high), None], ours)
    least, most = integer_range(theirs)
    expect(column, theirs, lambda v: v if least <= v <= most else None)


@pytest.mark.parametrize("theirs", INTEGERS, ids=str)
@pytest.mark.parametrize("ours", DECIMALS, ids=str)
def test_decimals_meet_integers(ours: pa.DataType, theirs: pa.DataType) -> None:
    least, most = integer_range(theirs)

    def fits(value: Decimal) -> int | None:
        whole = unscaled(value, 0)
        return whole if whole is not None and least <= whole <= most else None

    expect(pa.array(decimals_of(ours), ours), theirs, fits)


@pytest.mark.parametrize("theirs", DECIMALS, ids=str)
@pytest.mark.parametrize("ours", INTEGERS, ids=str)
def test_integers_meet_decimals(ours: pa.DataType, theirs: pa.DataType) -> None:
    low, high = integer_range(ours)
    values = {low, high, 0, 1, 100, low + 1, high - 1}
    expect(pa.array([*sorted(values), None], ours), theirs, fits_decimal(theirs))


@pytest.mark.parametrize("theirs", DECIMALS, ids=str)
@pytest.mark.parametrize("ours", DECIMALS, ids=str)
def test_decimals_meet_decimals(ours: pa.DataType, theirs: pa.DataType) -> None:
    expect(pa.array(decimals_of(ours), ours), theirs, fits_decimal(theirs))


@settings(deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.integers(-(10**12), 10**12)), max_size=8),
    ours=st.tuples(st.integers(13, 38), st.integers(0, 12)),
    theirs=st.tuples(st.integers(1, 38), st.integers(0, 12)),
)
def test_decimals_of_any_scale(
    values: list[int | None], ours: tuple[int, int], theirs: tuple[int, int]
) -> None:
    have = pa.decimal128(*ours)
    wanted = pa.decimal128(theirs[0], min(theirs))
    column = pa.array([None if v is None else scaled(v, ours[1]) for v in values], have)
    expect(column, wanted, fits_decimal(wanted))


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(("ours", "theirs"), list(product(UNITS, UNITS)))
def test_timestamps_of_every_unit(ours: str, theirs: str, zone: str | None) -> None:
    have = 10 ** (3 * UNITS.index(ours))
    want = 10 ** (3 * UNITS.index(theirs))
    values = [0, 1, -1, 1000, -1000, 10**9, -(10**9), 1_500_000, 2**63 - 1, -(2**63), 2**62, None]
    column = pa.array(values, pa.int64()).cast(pa.timestamp(ours, zone))
    keys = KeyMeeting((column.type,), (pa.timestamp(theirs, zone),)).keys([column])
    met = keys.columns[0].cast(pa.int64()).to_pylist()
    for value, after in zip(values, met, strict=True):
        if value is None:
            assert after is None
            continue
        exact, rest = divmod(value * want, have)
        holds = rest == 0 and -(2**63) <= exact < 2**63
        assert after == (exact if holds else None), value


def test_time_zones_name_the_same_instants() -> None:
    at = [dt.datetime(2024, 5, 1, 12, tzinfo=dt.timezone.utc), None]
    column = pa.array(at, pa.timestamp("us", "Europe/Berlin"))
    values, states = meet(column, pa.timestamp("us", "UTC"))
    assert values == at
    assert states == [VALID, NULL_KEY]
    edge = pa.array([-(2**63)], pa.int64()).cast(pa.timestamp("us", "Europe/Berlin"))
    keys = KeyMeeting((edge.type,), (pa.timestamp("us", "UTC"),)).keys([edge])
    assert keys.state is None


def test_dates_meet_dates() -> None:
    days = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31), None]
    expect(pa.array(days, pa.date32()), pa.date64(), lambda d: d)
    expect(pa.array(days, pa.date64()), pa.date32(), lambda d: d)


def test_a_date_with_a_time_of_day_is_a_miss() -> None:
    day = 86_400_000
    milliseconds = pa.array([day, day + 1, -day, None, -1, 2**62 // day * day], pa.int64())
    column = milliseconds.cast(pa.timestamp("ms")).view(pa.date64())
    keys = KeyMeeting((pa.date64(),), (pa.date32(),)).keys([column])
    assert keys.state is not None
    assert keys.state.tolist() == [
        VALID,
        NO_SUCH_ROW,
        VALID,
        NULL_KEY,
        NO_SUCH_ROW,
        NO_SUCH_ROW,
    ]
    assert keys.codes[[0, 2]].tolist() == [1, -1]


@pytest.mark.parametrize("theirs", STRINGS, ids=str)
@pytest.mark.parametrize("ours", STRINGS, ids=str)
def test_strings_meet_strings(ours: pa.DataType, theirs: pa.DataType) -> None:
    texts = ["", "a", "ä", "日本語", "a" * 100, "a\0b", None]
    expect(pa.array(texts, ours), theirs, lambda v: v)


@pytest.mark.parametrize("theirs", BINARIES, ids=str)
@pytest.mark.parametrize("ours", BINARIES, ids=str)
def test_binaries_meet_binaries(ours: pa.DataType, theirs: pa.DataType) -> None:
    expect(pa.array([b"", b"\xff\x00", b"x" * 40, None], ours), theirs, lambda v: v)


def test_equal_strings_of_any_type_have_one_code() -> None:
    texts = ["", "short", "a text longer than a view holds", "ünï"]
    expected = [xxhash.xxh64_intdigest(t.encode(), 42) for t in texts]
    for t in [*STRINGS, pa.dictionary(pa.int8(), pa.string())]:
        codes = codes_of([pa.array(texts, t)])
        assert codes.view(np.uint64).tolist() == expected


# --- forms of columns ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "t"),
    [
        ([5, None, -3, 5], pa.int64()),
        ([5, None, 300, 5], pa.int32()),
        (["x", None, "", "x"], pa.string()),
        ([Decimal("1.50"), None, Decimal("-2.00"), Decimal("1.50")], pa.decimal128(10, 2)),
        ([dt.date(2020, 1, 1), None, dt.date(1960, 1, 1), dt.date(2020, 1, 1)], pa.date32()),
    ],
    ids=["int64", "int32", "string", "decimal", "date"],
)
def test_dictionary_columns_are_what_they_stand_for(values: list[Any], t: pa.DataType) -> None:
    plain = pa.array(values, t)
    encoded = plain.dictionary_encode()
    ours = KeyMeeting((encoded.type,), (t,)).keys([encoded])
    theirs = KeyMeeting((t,), (t,)).keys([plain])
    assert ours.columns[0].equals(plain)
    assert ours.state is not None
    assert ours.state.tolist() == [VALID, NULL_KEY, VALID, VALID]
    valid = [0, 2, 3]
    assert ours.codes[valid].tolist() == theirs.codes[valid].tolist()
    assert Keys.of(encoded).codes[valid].tolist() == theirs.codes[valid].tolist()


def test_a_null_inside_a_dictionary_is_a_null_key() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    keys = KeyMeeting((column.type,), (pa.string(),)).keys([column])
    assert keys.state is not None
    assert keys.state.tolist() == [VALID, NULL_KEY, VALID]
    assert Keys.of(column).state.tolist() == [VALID, NULL_KEY, VALID]  # type: ignore[union-attr]


SLICED = [
    (list(range(20)), pa.int64()),
    (list(range(20)), pa.int8()),
    (list(range(20)), pa.uint64()),
    ([Decimal(i) for i in range(20)], pa.decimal128(18, 0)),
    ([Decimal(i) for i in range(20)], pa.decimal128(30, 0)),
    ([Decimal(i) for i in range(20)], pa.decimal256(60, 0)),
    ([dt.date(2000, 1, i + 1) for i in range(20)], pa.date32()),
    ([dt.datetime(2000, 1, i + 1) for i in range(20)], pa.timestamp("ms")),
    ([f"key {i}" for i in range(20)], pa.string()),
    ([f"key {i}" for i in range(20)], pa.large_string()),
    ([f"key {i}" * 3 for i in range(20)], pa.string_view()),
    ([bytes([i]) * 4 for i in range(20)], pa.binary(4)),
    ([bytes([i]) * i for i in range(20)], pa.binary()),
]


@pytest.mark.parametrize(("values", "t"), SLICED, ids=[str(t) for _, t in SLICED])
def test_slices_have_the_codes_of_their_rows(values: list[Any], t: pa.DataType) -> None:
    whole = pa.array(values, t)
    codes = codes_of([whole])
    assert len(set(codes.tolist())) == 20
    assert codes_of([whole.slice(3, 11)]).tolist() == codes[3:14].tolist()
    assert codes_of([whole.slice(20)]).tolist() == []
    with_null = pa.array([None, *values], t)
    assert codes_of([with_null.slice(1)]).tolist() == codes.tolist()
    met = KeyMeeting((t,), (t,)).keys([with_null.slice(0, 5)])
    assert met.state is not None
    assert met.state.tolist() == [NULL_KEY, VALID, VALID, VALID, VALID]


@pytest.mark.parametrize(("values", "t"), SLICED[:8], ids=[str(t) for _, t in SLICED[:8]])
def test_exact_codes_are_in_the_order_of_the_keys(values: list[Any], t: pa.DataType) -> None:
    if is_exact([t]):
        codes = codes_of([pa.array(values, t)])
        assert codes.flags.c_contiguous
        assert (np.diff(codes) > 0).all()


def test_unsigned_and_negative_numbers_keep_their_order() -> None:
    big = codes_of([pa.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64())])
    assert (np.diff(big.astype(object)) > 0).all()
    decimals = [Decimal("-9.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("9.99")]
    assert codes_of([pa.array(decimals, pa.decimal128(3, 2))]).tolist() == [-999, -1, 0, 999]


# --- several columns -------------------------------------------------------------------------


def test_a_composite_chains_its_columns() -> None:
    columns = [pa.array([7, -1]), pa.array(["x", "yy"])]
    first = xxhash.xxh64_intdigest((7).to_bytes(8, "little"), 42)
    expected = xxhash.xxh64_intdigest(b"x", first)
    assert codes_of(columns).view(np.uint64)[0] == expected
    assert codes_of(columns[::-1]).tolist() != codes_of(columns).tolist()


def test_a_composite_tells_where_one_column_ends() -> None:
    left, right = pa.array(["a", "ab"]), pa.array(["bc", "c"])
    codes = codes_of([left, right])
    assert codes[0] != codes[1]


def test_composite_states() -> None:
    meeting = KeyMeeting((pa.int64(), pa.string()), (pa.int8(), pa.string()))
    keys = meeting.keys([pa.array([1, None, 300, 300, 2]), pa.array(["a", "b", "c", None, None])])
    assert keys.state is not None
    assert keys.state.tolist() == [VALID, NULL_KEY, NO_SUCH_ROW, NULL_KEY, NULL_KEY]


def test_a_struct_is_several_columns() -> None:
    parts = [pa.array([1, 2, None]), pa.array(["x", None, "z"])]
    struct = pa.StructArray.from_arrays(parts, ["a", "b"], mask=pa.array([False, False, False]))
    keys = Keys.of(struct)
    assert len(keys.columns) == 2
    assert keys.codes[0] == codes_of(parts)[0]
    assert keys.state is not None
    assert keys.state.tolist() == [VALID, NULL_KEY, NULL_KEY]
    chunked = pa.chunked_array([struct.slice(0, 1), struct.slice(1)])
    assert Keys.of(chunked).codes[0] == keys.codes[0]


def test_any_null() -> None:
    assert any_null([pa.array([1, 2]), pa.array(["a", "b"])]) is None
    found = any_null([pa.array([1, None, 3]), pa.array([None, "b", "c"])])
    assert found is not None
    assert found.tolist() == [True, True, False]


def test_the_seed_changes_hashes_and_nothing_else() -> None:
    texts, numbers = pa.array(["a", "b"]), pa.array([1, 2])
    assert codes_of([texts], 1).tolist() != codes_of([texts], 2).tolist()
    assert codes_of([numbers], 1).tolist() == codes_of([numbers], 2).tolist()
