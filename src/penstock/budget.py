"""Byte budgets: `"50MB"` to bytes and back, and what each part of a join holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from numbers import Integral

from penstock.errors import BudgetError, SizeError

Size = int | float | str
"""A number of bytes, or a text like `"50MB"`."""
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}
_UNITS = {
    "": 1,
    "B": 1,
    **{f"{letter}{end}": 1000**n for letter, n in _POWERS.items() for end in ("", "B")},
    **{f"{letter}I{end}": 1024**n for letter, n in _POWERS.items() for end in ("", "B")},
}
_MOST = 2**50
_NUMBER = r"([0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?|\.[0-9]+)(e\+?[0-9]{1,2})?"
_PATTERN = re.compile(rf"\s*({_NUMBER})\s*([a-z]*)\s*", re.IGNORECASE)
_HOW = (
    "Write a number of bytes (50000000, 5e7), or a number and a unit, such as '50MB', '64 KiB' or "
    "'1.5G': K, M, G, T and KB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB powers of 1024."
)


def parse_bytes(size: Size) -> int:
    """Bytes of a size as people write it; M and MB are 10**6, MiB is 2**20.

    >>> parse_bytes("50MB"), parse_bytes("1.5 MiB"), parse_bytes("5m"), parse_bytes(5e7)
    (50000000, 1572864, 5000000, 50000000)
    """
    value = _bytes_of(size)
    if value <= 0:
        raise SizeError(f"a size must be above zero bytes; {size!r} is not. {_HOW}")
    if value > _MOST:
        raise SizeError(f"{size!r} is more bytes than any machine has. {_HOW}")
    return value


def _bytes_of(size: object) -> int:
    if isinstance(size, str):
        match = _PATTERN.fullmatch(size)
        if match is not None and match.group(4).upper() in _UNITS:
            return round(Decimal(match.group(1)) * _UNITS[match.group(4).upper()])
        raise SizeError(f"{size!r} is not a size. {_HOW}")
    if isinstance(size, Integral) and not isinstance(size, bool):
        return int(size)
    if isinstance(size, float) and size.is_integer():
        return int(size)
    if isinstance(size, float):
        raise SizeError(f"{size!r} is not a whole number of bytes. {_HOW}")
    raise SizeError(
        f"a size is a number of bytes or a text like '50MB', not {size!r} ({type(size).__name__})."
    )


def format_bytes(size: int) -> str:
    """A size for people, in powers of 1000.

    >>> format_bytes(50_000_000), format_bytes(1_234), format_bytes(12)
    ('50.0 MB', '1.2 kB', '12 B')
    """
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if abs(size) >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def too_small(join: str, budget: int, parts: Mapping[str, int], advice: str = "") -> BudgetError:
    """The error that names the least that `join` needs, part by part."""
    needed = " + ".join(f"{name} {format_bytes(size)}" for name, size in parts.items() if size)
    least = sum(parts.values())
    return BudgetError(
        f"{join} needs at least {format_bytes(least)} ({least} bytes: {needed}); "
        f"the budget is {format_bytes(budget)}. Raise the budget to {least} bytes or more"
        f"{', or ' + advice if advice else ''}."
    )
