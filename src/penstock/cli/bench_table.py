"""Benchmark results as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from penstock.bench import JoinCase
from penstock.budget import format_bytes
from penstock.cli.output import short_count
from penstock.errors import counted

Result = dict[str, Any]
_BUSY = 0.05
_ABOVE = 1.05
"""Share of the bound from which on a join has passed it by more than chance."""
_MANY_WINDOWS = 10
_ANOTHER_RATE = 0.1
_ROOMY, _NARROW = 112, 90
"""Columns of a terminal from which on every figure has room, and all but the least needed."""


@dataclass(frozen=True)
class Figure:
    """One column: its heading, the value of a result, how it is written, which one is best."""

    heading: str
    value: Callable[[Result], float | None]
    text: Callable[[float], str]
    best: Callable[[Sequence[float]], float] | None = None
    least_width: int = 0
    """Columns of the terminal from which on this is shown."""
    mark: Callable[[Result], str] = lambda _: ""
    """What is put behind a value that a note explains."""
    meaning: str = ""
    """What the column says, for the legend."""

    @property
    def name(self) -> str:
        """The heading on one line."""
        return self.heading.replace("\n", " ")

    def cell(self, result: Result, best: float | None) -> str:
        value = self.value(result)
        if value is None:
            return "–"
        text = self.text(value) + self.mark(result)
        return f"[bold green]{text}[/]" if value == best else text


def _share(value: float) -> str:
    return f"{value:.0%}".replace("%", " %")


def _of_memory(result: Result) -> float | None:
    rate = result["in_memory_rows_per_second"]
    return result["rows_per_second"] / rate if rate else None


def _of_bound(result: Result) -> float | None:
    bound = result["bound_rows_per_read"]
    return result["rows_per_read"] / bound if bound else None


def _above_bound(result: Result) -> bool:
    return (_of_bound(result) or 0.0) > _ABOVE


def _over_whole_run(result: Result) -> bool:
    return bool(result["rows_per_read_over"] == "whole run")


def _hits(result: Result) -> float:
    return float(result["cache_hits"] / result["rows_in"])


def _bytes(value: float) -> str:
    return format_bytes(int(value))


FIGURES = (
    Figure(
        "rows/s",
        lambda r: r["rows_per_second"],
        short_count,
        max,
        meaning="rate of the pushes on one core, without the flush at the end",
    ),
    Figure(
        "of in\nmemory",
        _of_memory,
        _share,
        least_width=_NARROW,
        meaning="compared with a binary search in all of R, held in memory, in the same run",
    ),
    Figure("cache\nhits", _hits, _share),
    Figure("pages\nread", lambda r: r["page_reads"], short_count, min),
    Figure(
        "rows\nper read",
        lambda r: r["rows_per_read"],
        short_count,
        mark=lambda r: "*" * _over_whole_run(r),
        meaning="waiting rows answered by one page read, cache hits left out",
    ),
    Figure(
        "of\nbound",
        _of_bound,
        _share,
        mark=lambda r: "‡" * _above_bound(r),
        meaning="how near that is to the most any schedule could reach with as many rows waiting",
    ),
    Figure("bytes\nread", lambda r: r["bytes_read"], _bytes, least_width=_ROOMY),
    Figure(
        "median\nwait",
        lambda r: r["wait_rows_p50"],
        short_count,
        least_width=_ROOMY,
        meaning="half of the rows waited for no more stream rows than this",
    ),
    Figure(
        "99 %\nwait",
        lambda r: r["wait_rows_p99"],
        short_count,
        min,
        _NARROW,
        meaning="99 % of the rows waited for no more stream rows than this",
    ),
    Figure("bytes\nheld", lambda r: r["held_bytes_max"], _bytes, meaning="by the join's own count"),
    Figure(
        "memory\ngrown",
        lambda r: r["rss_growth_bytes"],
        _bytes,
        least_width=_NARROW,
        meaning="as the system sees it",
    ),
)


def print_results(console: Console, case: JoinCase, results: list[Result]) -> None:
    """The joins, fewest page reads first, the baselines under them, what the columns mean, and
    what was found. A join that was stopped comes last: its pages are those of fewer rows.
    """
    ranked = sorted(results, key=lambda r: (_stopped(case, r), r["page_reads"] / r["rows_in"]))
    finished = [r for r in ranked if not _stopped(case, r)]
    figures = [f for f in FIGURES if console.width >= f.least_width]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    longest = max(len(_name(result)) + 1 for result in results)
    table.add_column("join", no_wrap=True, style="bold", min_width=longest)
    for figure in figures:
        table.add_column(figure.heading, justify="right", no_wrap=True)
    best = [_best(figure, finished) for figure in figures]
    for result in ranked:
        cells = (figure.cell(result, top) for figure, top in zip(figures, best, strict=True))
        table.add_row(_name(result) + "†" * _stopped(case, result), *cells)
    _add_baselines(table, figures, ranked[0])
    console.print(f"\n{case}", markup=False)
    console.print(table)
    console.print(_legend(figures), style="dim", markup=False)
    console.print(_notes(case, ranked), style="dim", markup=False, end="")
    among = "of those that came to the end" if 0 < len(finished) < len(ranked) else ""
    console.print(f"\n{finding(finished or ranked, among)}", markup=False)


def _stopped(case: JoinCase, result: Result) -> bool:
    return bool(result["rows_in"] < case.stream)


def _best(figure: Figure, results: list[Result]) -> float | None:
    values = [v for v in map(figure.value, results) if v is not None]
    if figure.best is None or len(values) < 2:
        return None
    return figure.best(values)


def _add_baselines(table: Table, figures: list[Figure], result: Result) -> None:
    """Under a line: the same stream joined with all of R in memory."""
    rates = {
        "all of R in memory": result["in_memory_rows_per_second"],
        "Polars, R in memory": result["polars_rows_per_second"],
    }
    if not any(rates.values()):
        return
    table.add_section()
    for name, rate in rates.items():
        if rate is None:
            continue
        known = {
            "rows/s": short_count(rate),
            "of in\nmemory": _share(rate / result["in_memory_rows_per_second"]),
            "bytes\nheld": _bytes(result["in_memory_bytes"]),
        }
        table.add_row(name, *(known.get(figure.heading, "") for figure in figures), style="dim")


def _legend(figures: list[Figure]) -> str:
    """What the columns that are shown mean, and which are not shown."""
    text = "; ".join(f"{f.name}: {f.meaning}" for f in figures if f.meaning) + "."
    out = [f.name for f in FIGURES if f not in figures]
    if out:
        left = f"{counted(len(out), 'column')} left out: {', '.join(out)}"
        text = f"{text}\n{left}; widen the terminal or use --output json."
    return text


_NO_DIRECT = (
    "Reads went through the kernel's cache: the file system takes no direct reads. Put the page "
    "file elsewhere with --master or TMPDIR."
)


def _notes(case: JoinCase, results: list[Result]) -> str:
    notes = []
    for r in results:
        if _stopped(case, r):
            rows = f"{r['rows_in']:,} of {case.stream:,} rows"
            notes.append(f"† {r['join']} was stopped after {case.limit:g} s, at {rows}.")
    if any(map(_above_bound, results)):
        notes.append(
            "‡ above the bound, which is for steady rates: a cache was learning, or the run is "
            "short."
        )
    if any(map(_over_whole_run, results)):
        notes.append("* counted over the whole run, since the window never filled.")
    steady = [_steady(r) for r in results if _is_short(r)]
    if steady:
        notes.append(
            f"The stream is less than {_MANY_WINDOWS} windows long, and a window that fills costs "
            f"nothing: rates from the first full window on are {', '.join(steady)}. A longer "
            "--stream shows these."
        )
    busy = max((r["core_wait_seconds"] or 0.0) / r["seconds"] for r in results)
    if busy > _BUSY:
        notes.append(
            f"The machine was busy: a join waited up to {_share(busy)} of its time for the core. "
            "Rates are too low; measure again when nothing else runs."
        )
    predicted = [text for r in results if (text := _predicted(r))]
    if predicted:
        notes.append(
            f"By the models, in the steady state: {'; '.join(predicted)}. "
            f"Costs: {results[0]['predicted_with']}."
        )
    if case.direct and not results[0]["direct"]:
        notes.append(_NO_DIRECT)
    if results[0]["in_memory_rows_per_second"] and not results[0]["polars_rows_per_second"]:
        notes.append("Polars is not installed: pip install 'penstock[bench]' adds it.")
    return "".join(f"{note}\n" for note in notes)


def _is_short(result: Result) -> bool:
    """Whether so few windows passed that the rate is another than in the steady part."""
    rate, waiting = result.get("steady_rows_per_second"), result.get("waiting_rows_mean")
    if not rate or not waiting or _over_whole_run(result):
        return False
    windows = (result["rows_in"] - result["cache_hits"]) / waiting
    return bool(
        windows < _MANY_WINDOWS and abs(rate / result["rows_per_second"] - 1) > _ANOTHER_RATE
    )


def _predicted(result: Result) -> str:
    rows, rate = result.get("predicted_rows_per_read"), result.get("predicted_rows_per_second")
    if rate is None:
        return ""
    reads = f"{short_count(rows)} rows per read, " if rows is not None else "nothing read, "
    return f"{result['join']} {reads}{short_count(rate)} rows/s"


def _steady(result: Result) -> str:
    return f"{result['join']} {short_count(result['steady_rows_per_second'])} rows/s"


def _name(result: Result) -> str:
    """The join's name; of `auto`, which join it took too."""
    name = str(result["join"])
    return f"{name}: {result['title'].lower()}" if name == "auto" else name


_YARDSTICKS = ("rootjoin", "hybridjoin", "meshjoin")
"""What the join with the fewest page reads is compared with, beside the next one."""


def finding(ranked: list[Result], among: str = "") -> str:
    """One sentence on who read the fewest pages, of joins in the order of their page reads."""
    best, *others = ranked
    pages, rows = best["page_reads"], best["rows_in"]
    if not pages:
        return f"{best['join']} read no pages for {rows:,} stream rows."
    said = f"{best['join']} read {pages:,} pages for {rows:,} stream rows"
    if not others:
        return f"{said}: one page for {rows / pages:,.1f} rows."
    known = [r for r in others if r["join"] in _YARDSTICKS] or others[:1]
    named = [f"{_times_fewer(r['page_reads'] / pages)} {r['join']}" for r in known]
    compared = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    return f"{said}, {f'the fewest {among}'.strip()}: {compared}."


def _times_fewer(ratio: float) -> str:
    if ratio < 1.005:
        return "as many as"
    digits = 2 if ratio < 1.95 else 1 if ratio < 9.95 else 0
    return f"{ratio:,.{digits}f} times fewer than"
