"""Kinds of keys: the types of both sides, and keys that are ordinary, awkward or cannot be in R."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

Key = tuple[Any, ...]
Make = Callable[[int], Any]

_WORDS = ("", "a", "A", "ä", "é", "e\u0301", "straße", "鍵", "🔑", "a\x00b", "null", " ", "x" * 70)
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class KeyKind:
    """Keys of one kind. `make(0), make(1), …` are different ordinary keys of a column.

    `edges` are keys that are easily got wrong, `unfit` keys of the stream that the master's type
    cannot hold. Both sides' columns may differ in type.
    """

    name: str
    stream: tuple[pa.DataType, ...]
    master: tuple[pa.DataType, ...]
    make: tuple[Make, ...]
    edges: tuple[Key, ...] = ()
    unfit: tuple[Key, ...] = ()
    most: int = 10**6
    """How many different keys there are."""

    def __str__(self) -> str:
        return self.name

    @property
    def columns(self) -> list[str]:
        """Names of the key columns."""
        return ["k"] if len(self.stream) == 1 else [f"k{i + 1}" for i in range(len(self.stream))]

    def keys(self, count: int) -> list[Key]:
        """That many different keys (or as many as there are), the awkward ones first."""
        found = dict.fromkeys(self.edges)
        for number in range(self.most):
            if len(found) >= count:
                break
            found[self._key(number)] = None
        return list(found)[:count]

    def _key(self, number: int) -> Key:
        """Number → key; in a composite, neighbours share the first column or the second."""
        if len(self.make) == 1:
            return (self.make[0](number),)
        return self.make[0](number // 7), self.make[1](number % 7)

    @property
    def hashed(self) -> bool:
        """Whether the keys' codes are hashes, so that different keys may share a code."""
        return len(self.master) > 1 or any(not _is_number(t) for t in self.master)

    def _null_key(self, number: int) -> Key:
        """A key with a null: in a composite in the first column, in the last or in all."""
        whole, width = self.keys(1)[0], len(self.stream)
        nulls = ((0,), (width - 1,), range(width))[number % 3]
        return tuple(None if c in nulls else value for c, value in enumerate(whole))

    def arrays(self, keys: Sequence[Key | None], side: str) -> list[pa.Array]:
        """The keys as columns of the stream or of the master; None is a key with a null in it."""
        types = self.stream if side == "stream" else self.master
        rows = [self._null_key(i) if k is None else k for i, k in enumerate(keys)]
        return [
            pa.array([row[c] for row in rows], type=t) if rows else pa.array([], type=t)
            for c, t in enumerate(types)
        ]


def _is_number(t: pa.DataType) -> bool:
    if pa.types.is_decimal(t):
        return bool(t.precision <= 18)
    return bool(pa.types.is_integer(t) or pa.types.is_date(t) or pa.types.is_timestamp(t))


def _integer(bits: int, signed: bool) -> KeyKind:
    t = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    middle = (-1, 0, 1) if signed else (0, 1, high // 2, high // 2 + 1)
    span = high - low + 1
    step = 1 if bits == 8 else 48_271 if bits > 16 else 7  # all coprime to the span

    def make(number: int) -> int:
        return (number * step) % span + low

    edges = tuple((v,) for v in dict.fromkeys((low, low + 1, *middle, high - 1, high)))
    return KeyKind(str(t), (t,), (t,), (make,), edges, most=min(span, 10**6))


def _text(number: int) -> str:
    return f"Nr {number} {'éß鍵'[number % 3] * (number % 11)}"


def _bytes(number: int) -> bytes:
    return number.to_bytes(4, "big") + b"\x00" * (number % 9)


def _date(number: int) -> date:
    return date(1890, 1, 1) + timedelta(days=37 * number)


def _moment(number: int) -> datetime:
    return _EPOCH + timedelta(microseconds=1_000_003 * (number - 50))


def _utc_moment(number: int) -> datetime:
    return _moment(number).replace(tzinfo=timezone.utc)


def _cents(number: int) -> Decimal:
    return Decimal(number * 37 - 500).scaleb(-2)


def _wide_decimal(number: int) -> Decimal:
    return Decimal(number * 10**21 - 5 * 10**22 + number).scaleb(-4)


def _texts(name: str, ours: pa.DataType, theirs: pa.DataType) -> KeyKind:
    return KeyKind(name, (ours,), (theirs,), (_text,), tuple((w,) for w in _WORDS))


def _key_kinds() -> list[KeyKind]:
    day, us = pa.date32(), pa.timestamp("us")
    utc = pa.timestamp("us", "UTC")
    narrow, wide = pa.decimal128(10, 2), pa.decimal128(30, 4)
    int16, int64 = _integer(16, True), _integer(64, True)
    whole = tuple((Decimal(n),) for n in (-(10**8) + 1, 0, 10**8 - 1))
    kinds = [_integer(bits, signed) for signed in (True, False) for bits in (8, 16, 32, 64)]
    kinds += [
        _texts("string", pa.string(), pa.string()),
        _texts("large_string", pa.large_string(), pa.large_string()),
        KeyKind(
            "binary",
            (pa.binary(),),
            (pa.binary(),),
            (_bytes,),
            ((b"",), (b"\x00",), (b"\x00\x00",), (b"\xff" * 40,), ("ä".encode(),)),
        ),
        KeyKind(
            "fixed_binary",
            (pa.binary(5),),
            (pa.binary(5),),
            (lambda n: n.to_bytes(5, "big"),),
            ((b"\x00" * 5,), (b"\xff" * 5,), (b"\x00\x00\x00\x00\x01",)),
        ),
        KeyKind(
            "date32",
            (day,),
            (day,),
            (_date,),
            ((date(1970, 1, 1),), (date(1, 1, 1),)),
            most=50_000,
        ),
        KeyKind("timestamp", (us,), (us,), (_moment,), ((_EPOCH,), (datetime(1, 1, 1),))),
        KeyKind(
            "timestamp_tz",
            (pa.timestamp("us", "Europe/Vienna"),),
            (utc,),
            (_utc_moment,),
            ((_EPOCH.replace(tzinfo=timezone.utc),),),
        ),
        KeyKind(
            "decimal_10_2",
            (narrow,),
            (narrow,),
            (_cents,),
            ((Decimal("0.00"),), (Decimal("-99999999.99"),), (Decimal("99999999.99"),)),
        ),
        KeyKind(
            "decimal_30_4",
            (wide,),
            (wide,),
            (_wide_decimal,),
            ((Decimal(0),), (Decimal(10**26 - 1),), (Decimal(-1),), (Decimal("-0.0001"),)),
        ),
        KeyKind(
            "int64_string",
            (pa.int64(), pa.string()),
            (pa.int64(), pa.string()),
            (int64.make[0], _text),
            ((0, ""), (-1, "a"), (2**63 - 1, "鍵"), (-(2**63), "")),
        ),
        KeyKind(
            "date_int32",
            (day, pa.int32()),
            (day, pa.int32()),
            (_date, lambda n: n - 3),
            ((date(1970, 1, 1), 0), (date(1970, 1, 1), -1), (date(1969, 12, 31), 2**31 - 1)),
            most=300_000,
        ),
        # The two sides differ: narrower, wider, encoded otherwise.
        KeyKind(
            "int32_in_int64",
            (pa.int32(),),
            (pa.int64(),),
            _integer(32, True).make,
            ((-(2**31),), (-1,), (0,), (2**31 - 1,)),
        ),
        KeyKind(
            "int64_in_int16",
            (pa.int64(),),
            (pa.int16(),),
            int16.make,
            int16.edges,
            ((2**15,), (-(2**15) - 1,), (2**16,), (2**63 - 1,), (-(2**63),)),
            most=2**16,
        ),
        KeyKind(
            "int64_in_uint64",
            (pa.int64(),),
            (pa.uint64(),),
            (lambda n: n,),
            ((0,), (2**63 - 1,)),
            ((-1,), (-(2**63),)),
        ),
        KeyKind(
            "decimal_in_decimal",
            (pa.decimal128(12, 4),),
            (narrow,),
            (_cents,),
            whole[1:2],
            ((Decimal("0.0001"),), (Decimal("1.2345"),)),
        ),
        KeyKind(
            "int64_in_decimal",
            (pa.int64(),),
            (narrow,),
            (lambda n: n - 9,),
            ((0,), (-99_999_999,), (99_999_999,)),
            ((10**8,), (-(2**63),)),
        ),
        KeyKind(
            "seconds_in_micros",
            (pa.timestamp("s"),),
            (us,),
            (lambda n: _EPOCH + timedelta(seconds=n - 9),),
            ((_EPOCH,),),
        ),
        KeyKind(
            "micros_in_seconds",
            (us,),
            (pa.timestamp("s"),),
            (lambda n: _EPOCH + timedelta(seconds=n - 9),),
            ((_EPOCH,),),
            ((_EPOCH + timedelta(microseconds=1),), (_EPOCH - timedelta(microseconds=1),)),
        ),
        _texts("dictionary_in_string", pa.dictionary(pa.int32(), pa.string()), pa.string()),
        _texts("view_in_string", pa.string_view(), pa.string()),
    ]
    return kinds


KEY_KINDS: dict[str, KeyKind] = {kind.name: kind for kind in _key_kinds()}
"""Every kind of key that the checks use, by name."""


def zipf_ranks(random: np.random.Generator, count: int, different: int, skew: float) -> np.ndarray:
    """`count` ranks from 0 to `different` - 1, the first the most frequent; skew 0 is uniform."""
    weights = np.arange(1, different + 1, dtype=np.float64) ** -skew
    return random.choice(different, size=count, p=weights / weights.sum())
