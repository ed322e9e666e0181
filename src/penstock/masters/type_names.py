"""Arrow types by the names that people write: Arrow's own, and the few that everybody tries."""

from __future__ import annotations

import re

import pyarrow as pa

from penstock.errors import OptionError, did_you_mean

_SHORT = {
    "text": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
_USUAL = (
    *("string", "int64", "int32", "uint64", "double", "bool", "date32", "binary"),
    *("timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]"),
    *("decimal(12, 2)", "timestamp[us, tz=UTC]"),
)
_DECIMAL = re.compile(r"decimal(128|256)?\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns),\s*tz=(\S+)\]", re.IGNORECASE)


def named_type(column: str, wanted: pa.DataType | str) -> pa.DataType:
    """The type that is meant for this column, given as one or by its name.

    >>> named_type("zip", "string"), named_type("price", "decimal(12, 2)")
    (DataType(string), Decimal128Type(decimal128(12, 2)))
    """
    if isinstance(wanted, pa.DataType):
        return wanted
    found = _named(wanted.strip()) if isinstance(wanted, str) else None
    if found is None:
        hint = did_you_mean(str(wanted), [*_USUAL, *_SHORT])
        raise OptionError(
            f"{wanted!r}, given for column {column!r}, is no type.{hint} Types have Arrow's names: "
            f"{', '.join(_USUAL)}, …"
        )
    return found


def _named(name: str) -> pa.DataType | None:
    lower = name.lower()
    if lower in _SHORT:
        return _SHORT[lower]
    try:
        if decimal := _DECIMAL.fullmatch(lower):
            make = pa.decimal256 if decimal.group(1) == "256" else pa.decimal128
            return make(int(decimal.group(2)), int(decimal.group(3)))
        if zoned := _ZONED.fullmatch(name):
            return pa.timestamp(zoned.group(1).lower(), zoned.group(2))
        return pa.type_for_alias(lower)
    except ValueError:
        return None
