"""Writes the tables of `docs/benchmarks` from what is in `benchmarks/reproduced`.

python benchmarks/tables.py            # each between <!-- table NAME --> and <!-- end -->
python benchmarks/tables.py --check    # changes nothing; says which pages are not what was found
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from page_tables import TABLES, Table

HERE = Path(__file__).parent
FIGURES, PAGES = HERE / "reproduced" / "figures", HERE.parent / "docs" / "benchmarks"
_PLACE = re.compile(r"<!-- table ([\w-]+) -->\n(.*?)<!-- end -->", re.DOTALL)


def written(table: Table) -> str:
    """The table as a page has it."""
    heads = [table.corner, *(_label(head, table.shared | cell) for head, cell in table.columns)]
    lines = [heads, ["---", *["---:"] * len(table.columns)]]
    for label, line in table.lines:
        cells = (table.shared | column | line for _, column in table.columns)
        lines.append([_label(label, table.shared | line), *map(_cell, cells)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _label(label: str, cell: Mapping[str, Any]) -> str:
    """With the x that was really run for {x}."""
    if "{x}" not in label:
        return label
    return label.replace("{x}", f"{round(cell['x'] / _shrunk(cell['figure'])):,}")


def _cell(cell: Mapping[str, Any]) -> str:
    value = _value(cell)
    if value is None:
        return "–"
    if "over" in cell:
        return f"{100 * value / _value({**cell, **cell['over']}):.0f} %"
    return _FORMS[cell.get("form", "count")](value)


def _value(cell: Mapping[str, Any]) -> Any:
    """The mean of one point, None where it has no such number."""
    points = _points(cell["figure"])
    at = (cell["series"], cell["panel"], cell["x"])
    if at not in points:
        known = sorted({x for s, p, x in points if s == at[0]}, key=str)
        raise SystemExit(f"{cell['figure']} has no point {at}; its x are {known}.")
    found = points[at].get(cell["value"])
    return None if found is None else found["mean"]


@cache
def _points(figure: str) -> dict[tuple[str, str, Any], dict[str, Any]]:
    """Its values by series, panel and x as at paper scale."""
    result, times = _result(figure), _shrunk(figure)
    return {
        (row["series"], row["panel"].partition("=")[2], _times(row["x"], times)): row["values"]
        for row in result["rows"]
    }


@cache
def _result(figure: str) -> dict[str, Any]:
    return dict(json.loads((FIGURES / f"{figure}.json").read_text("utf-8")))


def _shrunk(figure: str) -> int:
    """By what the x of paper scale were divided."""
    from penstock.experiments.kinds.grid import SCALED_FIELDS
    from penstock.experiments.scale import SCALES

    result = _result(figure)
    return SCALES[result["scale"]].divisor if result["x"]["field"] in SCALED_FIELDS else 1


def _times(x: Any, times: int) -> Any:
    return x if x is None or times == 1 else x * times


def _rate(value: float) -> str:
    """
    >>> _rate(8_778_000), _rate(12_310_000), _rate(246_400), _rate(8_200)
    ('8.8 M', '12.3 M', '246 k', '8.2 k')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            digits = 0 if value >= 100 * size else 2 if value < size * 0.995 else 1
            return f"{value / size:,.{digits}f} {unit}"
    return f"{value:,.0f}"


_FORMS = {
    "rate": _rate,
    "count": lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.1f}",
    "bytes": lambda value: f"{value / 1e6:,.1f} MB",
    "seconds": lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.2g}",
    "share": lambda value: f"{100 * value:.0f} %",
}


def _filled(place: re.Match[str]) -> str:
    return f"<!-- table {place[1]} -->\n{written(TABLES[place[1]])}<!-- end -->"


def main(arguments: Iterable[str]) -> None:
    check = "--check" in arguments
    stale: list[str] = []
    left = set(TABLES)
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text("utf-8")
        left.difference_update(place[1] for place in _PLACE.finditer(text))
        filled = _PLACE.sub(_filled, text)
        if filled != text:
            stale.append(page.name)
            if not check:
                page.write_text(filled, "utf-8")
    if left:
        raise SystemExit(f"no page has {', '.join(sorted(left))}.")
    if check and stale:
        raise SystemExit(f"not what was found: {', '.join(stale)}")


if __name__ == "__main__":
    main(sys.argv[1:])
