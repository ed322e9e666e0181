"""Keys as a statement's text: literals that hold nothing but digits.

Texts and binaries are written in hexadecimal, numbers, days and moments by Arrow, so that no value
can end its literal. Each function does a whole column.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def in_hex(values: pa.Array) -> pa.Array:
    """Texts or binaries in hexadecimal.

    >>> in_hex(pa.array(["a'", ""])).to_pylist()
    ['6127', '']
    """
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    data = values.buffers()[2]
    digits = hexlify(data.slice(first, end - first)) if end > first else b""
    return pa.StringArray.from_buffers(
        len(values), pa.py_buffer((offsets - offsets[0]) * np.int32(2)), pa.py_buffer(digits)
    )


def _decimals(values: pa.Array) -> pa.Array:
    """Decimals without an exponent, which Arrow writes where they are small.

    >>> from decimal import Decimal
    >>> _decimals(
    ...     pa.array([Decimal("-0.0000001"), Decimal("12.5")], pa.decimal128(9, 7))
    ... ).to_pylist()
    ['-0.0000001', '12.5000000']
    """
    scale = values.type.scale
    whole = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(values), values.buffers(), offset=values.offset
    ).cast(pa.string())
    if scale == 0:
        return whole
    sign = pc.if_else(pc.starts_with(whole, "-"), "-", "")
    digits = pc.utf8_lpad(pc.replace_substring(whole, "-", ""), scale + 1, "0")
    before = pc.utf8_slice_codeunits(digits, 0, -scale)
    return _joined(sign, before, ".", pc.utf8_slice_codeunits(digits, -scale, 2**31 - 1))


def literals(
    values: pa.Array, charset: str | None = None, collation: str | None = None
) -> pa.Array:
    """Values without nulls as literals of their type; texts to be compared with such a column.

    >>> literals(pa.array([-1, 2])).to_pylist(), literals(pa.array(["x'"]), "utf8mb4").to_pylist()
    (['-1', '2'], ["_utf8mb4 X'7827'"])
    """
    t = values.type
    if not len(values):
        return pa.array([], pa.string())
    if pa.types.is_binary(t):
        return _joined("X'", in_hex(values), "'")
    if pa.types.is_string(t):
        texts = _joined("_utf8mb4 X'", in_hex(values), "'")
        if charset in (None, "utf8mb4"):
            return texts
        # A text that the column's character set has not would turn the column into another one,
        # past its index. Written in that set it finds some other text, which is no partner.
        return _joined("CONVERT(", texts, f" USING {charset}) COLLATE {collation}")
    if pa.types.is_decimal(t):
        return _decimals(values)
    if pa.types.is_date(t):
        return _joined("DATE'", values.cast(pa.string()), "'")
    if pa.types.is_timestamp(t):
        return _joined("TIMESTAMP'", values.cast(pa.timestamp("us")).cast(pa.string()), "'")
    return values.cast(pa.string())


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def tuples(columns: Sequence[pa.Array]) -> pa.Array:
    """Rows of literals, in brackets where they have several columns."""
    if len(columns) == 1:
        return columns[0]
    return _joined("(", pc.binary_join_element_wise(*columns, ","), ")")


def lists(values: pa.Array, most_bytes: int) -> list[str]:
    """The values with commas between them, in as many texts as keep each below so many bytes.

    >>> lists(pa.array(["1", "22", "333"]), 7)
    ['1,22', '333']
    """
    ends = np.cumsum(pc.binary_length(values).to_numpy() + 1)
    found, first = [], 0
    while first < len(values):
        before = ends[first - 1] if first else 0
        end = max(int(np.searchsorted(ends, before + most_bytes, side="right")), first + 1)
        part = values.slice(first, end - first)
        offsets = pa.array([0, len(part)], pa.int32())
        found.append(pc.binary_join(pa.ListArray.from_arrays(offsets, part), ",")[0].as_py())
        first = end
    return found
