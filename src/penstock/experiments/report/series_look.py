"""What a series looks like: the same in every figure, told apart by more than its colour."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

_SOLID: tuple[int, ...] = ()
_DASHED = (6, 3)
_BOUND_DASHES = ((3, 3), (8, 4), (8, 3, 2, 3), (2, 5))


@dataclass(frozen=True)
class Look:
    """How one series is drawn.

    Attributes:
        light, dark: its colour on a white and on a dark page.
        shape: of its points, as Vega names them; "stroke" is a line without points.
        dash: lengths of strokes and gaps; none is a full line.
        width: of the line, in pixels.
    """

    light: str
    dark: str
    shape: str = "circle"
    dash: tuple[int, ...] = _SOLID
    width: float = 1.8


_KNOWN = {
    "inlj": Look("#7a5c10", "#d9bd6c", "cross"),
    "meshjoin": Look("#0066b0", "#58a9ec", "circle"),
    "r-meshjoin": Look("#4aa8dc", "#a5dcff", "diamond"),
    "partitioned": Look("#6b6b1f", "#c9c96a", "triangle-right"),
    "ssij": Look("#2f8f8f", "#6fd6d0", "triangle-left"),
    "hybridjoin": Look("#008c66", "#35cf9f", "square"),
    "hybridjoin-l": Look("#5dba7a", "#a6ecb8", "triangle-up"),
    "hybridjoin-pq": Look("#7a9a01", "#c3e04f", "triangle-down"),
    "x-hybridjoin": Look("#d99000", "#ffc55c", "triangle-up"),
    "tuned-x-hybridjoin": Look("#d14b00", "#ff8d4d", "triangle-down"),
    "optimised-x-hybridjoin": Look("#9c3d14", "#ffb08a", "triangle-right"),
    "cachejoin": Look("#b35a93", "#eba0cf", "diamond"),
    "sscj": Look("#8c4a4a", "#dd9c9c", "triangle-right"),
    "cachejoin-l": Look("#d68fc0", "#f6c4e6", "diamond"),
    "cachejoin-pq": Look("#7b2d8b", "#c78ae0", "triangle-down"),
    "rootjoin": Look("#000000", "#ffffff", "circle", _SOLID, 3.4),
    "measured": Look("#0066b0", "#58a9ec", "circle"),
    "model": Look("#d14b00", "#ff8d4d", "triangle-up", _DASHED),
    "printed": Look("#a83a4e", "#f0909f", "triangle-left", _DASHED),
    "published": Look("#7b2d8b", "#c78ae0", "triangle-up", _DASHED),
    "corrected": Look("#4aa8dc", "#a5dcff", "triangle-down", _DASHED),
    "ours": Look("#3d4450", "#cfd6e0", "cross", _DASHED),
    "lru-pages": Look("#5b4fa8", "#a79cf0", "triangle-left"),
    "lru-sqlite": Look("#56657a", "#a9bbd3", "triangle-left"),
    "arrow-in-memory": Look("#a83a4e", "#f0909f", "cross"),
    "polars": Look("#1f7a86", "#63c9d6", "cross"),
    "duckdb": Look("#80640a", "#dcc06f", "triangle-right"),
    "spark": Look("#b8701c", "#f2b877", "diamond"),
    "best": Look("#008c66", "#35cf9f", "square"),
    "default": Look("#d99000", "#ffc55c", "triangle-up", _DASHED),
}
_BOUND = Look("#808080", "#9c9c9c", "stroke", _BOUND_DASHES[0], 1.6)
_SPARE = (
    Look("#5b4fa8", "#a79cf0", "square"),
    Look("#a83a4e", "#f0909f", "triangle-left"),
    Look("#1f7a86", "#63c9d6", "diamond"),
    Look("#80640a", "#dcc06f", "triangle-right"),
    Look("#4d6b2a", "#a9cf7d", "cross"),
    Look("#9a5fb8", "#d6a6ee", "triangle-up"),
    Look("#b8701c", "#f2b877", "triangle-down"),
    Look("#56657a", "#a9bbd3", "circle"),
)


def is_bound(name: str) -> bool:
    """Whether a series of this name is a bound, and no join.

    >>> is_bound("read-bound"), is_bound("rootjoin")
    (True, False)
    """
    return "bound" in name.split("-")


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each series of one figure, no two alike.

    Joins have a colour of their own. A name that starts with another's and goes on is drawn in
    that one's colour, dashed. What is not known gets one of some spare colours, by its name.

    >>> found = looks(["meshjoin", "meshjoin-model", "read-bound"])
    >>> found["meshjoin"].light == found["meshjoin-model"].light
    True
    >>> found["read-bound"].shape
    'stroke'
    """
    found: dict[str, Look] = {}
    for name in names:
        if is_bound(name):
            bounds = sum(map(is_bound, found))
            look = replace(_BOUND, dash=_BOUND_DASHES[bounds % len(_BOUND_DASHES)])
        else:
            look = _KNOWN.get(name) or _after(name) or _spare(name, 0)
        for turn in range(len(_SPARE)):
            if look not in found.values():
                break
            look = _spare(name, turn)
        found[name] = look
    return found


def dark_colours() -> dict[str, str]:
    """For each colour on a white page, the one that stands for it on a dark page."""
    return {look.light: look.dark for look in (*_KNOWN.values(), *_SPARE, _BOUND)}


def _after(name: str) -> Look | None:
    """The look of the longest known name that this one starts with, dashed."""
    starts = [known for known in _KNOWN if name.startswith(f"{known}-")]
    return replace(_KNOWN[max(starts, key=len)], dash=_DASHED, width=1.6) if starts else None


def _spare(name: str, turn: int) -> Look:
    return _SPARE[(zlib.crc32(name.encode()) + turn) % len(_SPARE)]
