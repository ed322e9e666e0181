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

Result = dict[str, Any]
_BUSY = 0.05
_ABOVE = 1.05
"""Share of the bound from which on a join has passed it by more than chance."""
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
    Figure("rows/s", lambda r: r["rows_per_second"], short_count, max),
    Figure("of in\nmemory", _of_memory, _share, least_width=_NARROW),
    Figure("cache\nhits", _hits, _share),
    Figure("pages\nread", lambda r: r["page_reads"], short_count, min),
    Figure(
        "rows\nper read",
        lambda r: r["rows_per_read"],
        short_count,
        mark=lambda r: "*" * _over_whole_run(r),
    ),
    Figure("of\nbound", _of_bound, _share, mark=lambda r: "‡" * _above_bound(r)),
    Figure("bytes\nread", lambda r: r["bytes_read"], _bytes, least_width=_ROOMY),
    Figure("median\nwait", lambda r: r["wait_rows_p50"], short_count, least_width=_ROOMY),
    Figure("99 %\nwait", lambda r: r["wait_rows_p99"], short_count, min, _NARROW),
    Figure("bytes\nheld", lambda r: r["held_bytes_max"], _bytes),
    Figure("memory\ngrown", lambda r: r["rss_growth_bytes"], _bytes, least_width=_NARROW),
)


def print_results(console: Console, case: JoinCase, results: list[Result]) -> None:
    """The joins, fewest page reads first, the baselines under them, what the columns mean, and
    what was found. A join that was stopped comes last: its pages are those of fewer rows.
    """
    ranked = sorted(results, key=lambda r: (_stopped(case, r), r["page_reads"] / r["rows_in"]))
    finished = [r for r in ranked if not _stopped(case, r)]
    figures = [f for f in FIGURES if console.width >= f.least_width]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    longest = max(len(result["join"]) + 1 for result in results)
    table.add_column("join", no_wrap=True, style="bold", min_width=longest)
    for figure in figures:
        table.add_column(figure.heading, justify="right", no_wrap=True)
    best = [_best(figure, finished) for figure in figures]
    for result in ranked:
        cells = (figure.cell(result, top) for figure, top in zip(figures, best, strict=True))
        table.add_row(result["join"] + "†" * _stopped(case, result), *cells)
    _add_baselines(table, figures, ranked[0])
    console.print(f"\n{case}", markup=False)
    console.print(table)
    console.print(_notes(case, ranked), style="dim", markup=False)
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


_MEANING = """\
rows/s: rate of the pushes on one core, without the flush at the end; of in memory: compared with \
a binary search in all of R, held in memory, in the same run.
rows per read: waiting rows answered by one page read, cache hits left out; of bound: how near \
that is to the most any schedule could reach with as many rows waiting.
waits count stream rows. bytes held: by the join's own count; memory grown: as the system sees."""
_NO_DIRECT = (
    "Reads went through the kernel's cache: the file system takes no direct reads. Put the page "
    "file elsewhere with --master or TMPDIR."
)


def _notes(case: JoinCase, results: list[Result]) -> str:
    notes = [_MEANING]
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
    busy = max((r["core_wait_seconds"] or 0.0) / r["seconds"] for r in results)
    if busy > _BUSY:
        notes.append(
            f"The machine was busy: a join waited up to {_share(busy)} of its time for the core. "
            "Rates are too low; measure again when nothing else runs."
        )
    if case.direct and not results[0]["direct"]:
        notes.append(_NO_DIRECT)
    if results[0]["in_memory_rows_per_second"] and not results[0]["polars_rows_per_second"]:
        notes.append("Polars is not installed: pip install 'penstock[bench]' adds it.")
    return "\n".join(notes)


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
