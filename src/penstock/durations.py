"""Times as people write them, in seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from penstock.errors import OptionError

Duration = float | str | timedelta
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*")
WAYS = "a time ('30s', '500ms', '2m', '1.5h'), seconds as a number (2.5) or a timedelta"


def written_seconds(text: str) -> float | None:
    """The seconds that a text means, or None where it means none.

    >>> written_seconds("1.5h"), written_seconds("soon")
    (5400.0, None)
    """
    match = _PATTERN.fullmatch(text)
    if match is None or match.group(2) not in _UNITS:
        return None
    return float(match.group(1)) * _UNITS[match.group(2)]


def parse_duration(value: object, name: str) -> float:
    """An option's time in seconds; raises OptionError for what is none.

    >>> parse_duration("10s", "staleness"), parse_duration(2, "staleness")
    (10.0, 2.0)
    """
    seconds: float | None = None
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        seconds = written_seconds(value)
    if seconds is None or not 0 <= seconds < math.inf:
        raise OptionError.out_of_range(name, value, WAYS)
    return seconds
