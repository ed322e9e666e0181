"""Byte budgets: `"50MB"` to bytes and back, and what each part of a join holds."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import BudgetError

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(size: int | str) -> int:
    """Bytes of a size as people write it; MB is 10**6, MiB is 2**20.

    >>> parse_bytes("50MB"), parse_bytes("1.5 MiB"), parse_bytes(4096)
    (50000000, 1572864, 4096)
    """
    if isinstance(size, bool) or not isinstance(size, int | str):
        raise BudgetError(
            f"a budget is a number of bytes or a text like '50MB', not {size!r} "
            f"({type(size).__name__})."
        )
    if isinstance(size, int):
        value = size
    else:
        match = _PATTERN.fullmatch(size)
        unit = match.group(2).upper() if match else ""
        if match is None or unit not in _UNITS:
            raise BudgetError(
                f"{size!r} is not a size. Write a number and a unit, such as '50MB', '64 KiB' "
                "or '1.5GB'; the units are B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, "
                "TiB (powers of 1024)."
            )
        value = round(float(match.group(1)) * _UNITS[unit])
    if value <= 0:
        raise BudgetError(f"a budget must be above zero bytes; {size!r} is not.")
    return value


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
