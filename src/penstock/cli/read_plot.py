"""The curve of c_IO as an SVG drawing: time by size, a line for each number of reads at once."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, log10
from pathlib import Path

from penstock.budget import format_bytes
from penstock.costs.unit_costs import UnitCosts
from penstock.costs.whole_files import require_target, write_asked

_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 130, 30, 60
_COLOURS = ("#0b6e99", "#d1495b", "#2e933c", "#8d6a9f", "#444444")


def draw(costs: UnitCosts, path: Path) -> None:
    """Write the drawing; both axes are logarithmic."""
    write_asked(path, _svg(costs), "plot")


def require_plot_target(path: Path) -> None:
    """Raise where no drawing can be written, or where something else would be lost."""
    require_target(path, "plot", "drawing (SVG)", _is_drawing)


def _is_drawing(path: Path) -> bool:
    try:
        head = path.read_bytes()[:200].lstrip()
    except OSError:
        return False
    return head.startswith((b"<svg", b"<?xml"))


def _svg(costs: UnitCosts) -> str:
    sizes = [size for curve in costs.reads.values() for size in curve.nbytes]
    times = [max(s, 1e-9) for curve in costs.reads.values() for s in curve.seconds]
    x = _Axis(min(sizes) / 1.2, max(sizes) * 1.2, _LEFT, _WIDTH - _RIGHT)
    low, high = 10.0 ** floor(log10(min(times))), 10.0 ** ceil(log10(max(times)))
    y = _Axis(low, high, _HEIGHT - _BOTTOM, _TOP)
    look = 'font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {look}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="{_TOP - 10}">seconds of one read, by its size</text>',
    ]
    for tick in _decades(low, high):
        at = y(tick)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
        )
        parts.append(
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{_time(tick)}</text>'
        )
    below = f'y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle"'
    parts += [
        f'<text x="{x(size):.1f}" {below}>{format_bytes(int(size))}</text>'
        for size in max((curve.nbytes for curve in costs.reads.values()), key=len)
    ]
    for number, (together, curve) in enumerate(costs.reads.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [
            (x(size), y(max(seconds, 1e-9)))
            for size, seconds in zip(curve.nbytes, curve.seconds, strict=True)
        ]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        name = "alone" if together == 1 else f"{together} at once, each"
        place = _TOP + 20 + 20 * number
        parts.append(f'<text x="{_WIDTH - _RIGHT + 8}" y="{place}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axis:
    """From a value to its place, logarithmically."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self._low, self._span = log10(low), max(log10(high) - log10(low), 1e-9)
        self._begin, self._length = begin, end - begin

    def __call__(self, value: float) -> float:
        return self._begin + (log10(value) - self._low) / self._span * self._length


def _decades(low: float, high: float) -> Iterator[float]:
    for power in range(round(log10(low)), round(log10(high)) + 1):
        yield 10.0**power


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        if seconds >= 0.999 * unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"
