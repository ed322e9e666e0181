from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from penstock.bench import JoinCase
from penstock.cli.bench_table import finding, print_results
from penstock.joins.names import NAMES

CASE = JoinCase(rows=2_000_000, stream=100_000_000)


def result(join: str, rate: float, **others: Any) -> dict[str, Any]:
    return {
        "join": join,
        "rows_in": CASE.stream,
        "rows_per_second": rate,
        "seconds": 100.0,
        "core_wait_seconds": 1.0,
        "in_memory_rows_per_second": 2e6,
        "in_memory_bytes": 240_000_000,
        "polars_rows_per_second": 8e6,
        "cache_hits": 61_000_000,
        "page_reads": 123_456_789,
        "rows_per_read": 1533.2,
        "bound_rows_per_read": 1600.0,
        "rows_per_read_over": "steady part",
        "bytes_read": 999_900_000_000,
        "wait_rows_p50": 12_345,
        "wait_rows_p99": 99_900_000,
        "held_bytes_max": 49_900_000,
        "rss_growth_bytes": 49_900_000,
        "direct": True,
        **others,
    }


def shown(results: list[dict[str, Any]], width: int = 120, case: JoinCase = CASE) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_results(console, case, results)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [100, 120])
def test_it_fits(width: int) -> None:
    lines = shown([result(name, 1e6 + i) for i, name in enumerate(NAMES)], width).splitlines()
    assert max(map(len, lines)) <= width
    for name in NAMES:
        row = next(line for line in lines if line.split()[:1] == [name])
        assert "…" not in row
        assert "1.53 k" in row


def test_the_fewest_page_reads_come_first_and_baselines_last() -> None:
    """Whatever the rates are."""
    text = shown(
        [
            result("hybridjoin", 3.31e6, page_reads=20_000),
            result("rootjoin", 1e6, page_reads=10_000),
            result("inlj", 1234),
        ]
    )
    order = ["rootjoin", "hybridjoin", "inlj", "all of R in memory", "Polars"]
    places = [text.index(name) for name in order]
    assert places == sorted(places)
    for part in ("3.31 M", "166 %", "1.23 k", "400 %", "61 %", "96 %", "240.0 MB"):
        assert part in text


def test_what_is_not_known_is_a_dash() -> None:
    unknown = result("rootjoin", 1e6, bound_rows_per_read=None, rss_growth_bytes=None)
    row = next(line for line in shown([unknown]).splitlines() if "rootjoin" in line)
    assert row.count("–") == 2


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"rows_per_read_over": "whole run"}, "the window never filled"),
        ({"rows_per_read": 2000.0}, "‡ above the bound"),
        ({"core_wait_seconds": 20.0}, "waited up to 20 % of its time for the core"),
        ({"direct": False}, "takes no direct reads"),
        ({"polars_rows_per_second": None}, "pip install 'penstock[bench]'"),
    ],
)
def test_a_note_where_it_is_needed(others: dict[str, Any], said: str) -> None:
    assert said not in shown([result("rootjoin", 1e6)])
    assert said in " ".join(shown([result("rootjoin", 1e6, **others)]).split())


def test_the_legend_is_of_the_columns_that_are_shown() -> None:
    wide, narrow = (" ".join(shown([result("rootjoin", 1e6)], w).split()) for w in (120, 80))
    assert "memory grown: as the system" in wide
    assert "left out:" not in wide
    assert "memory grown: as the system" not in narrow
    assert "rows per read: waiting rows" in narrow
    left = "5 columns left out: of in memory, bytes read, median wait, 99 % wait, memory grown;"
    assert f"{left} widen the terminal or use --output json." in narrow


@pytest.mark.parametrize(
    ("steady", "waiting", "is_said"),
    [(8e5, 5_000_000, True), (9.5e5, 5_000_000, False), (8e5, 3_000_000, False)],
)
def test_a_short_stream_has_its_steady_rate_said(
    steady: float, waiting: float, is_said: bool
) -> None:
    """39 M rows had to wait: 7.8 windows of 5 M rows, 13 of 3 M."""
    row = result("rootjoin", 1e6, steady_rows_per_second=steady, waiting_rows_mean=waiting)
    text = " ".join(shown([row, result("hybridjoin", 1e6)]).split())
    assert ("less than 10 windows long" in text) == is_said
    assert ("from the first full window on are rootjoin 800 k rows/s." in text) == is_said


def test_a_join_that_was_stopped_is_marked() -> None:
    case = JoinCase(rows=2_000_000, stream=CASE.stream, limit=2.5)
    slow = result("inlj", 3e3, rows_in=16_384, cache_hits=0)
    text = shown([result("rootjoin", 1e6), slow], case=case)
    assert "inlj†" in text
    assert "rootjoin†" not in text
    assert "† inlj was stopped after 2.5 s, at 16,384 of 100,000,000 rows." in text


def test_a_join_that_was_stopped_early_is_not_the_best_for_it() -> None:
    """It comes last, however few pages it had time to read, and is left out of the finding."""
    case = JoinCase(rows=2_000_000, stream=CASE.stream, limit=2.5)
    slow = result("cachejoin", 3e3, rows_in=16_384, page_reads=3, cache_hits=0)
    text = shown([slow, result("rootjoin", 1e6), result("hybridjoin", 1e6)], case=case)
    assert text.index("rootjoin") < text.index("cachejoin†")
    found = " ".join(text.rpartition("\n\n")[2].split())
    assert found.startswith("rootjoin read 123,456,789 pages for 100,000,000 stream rows, the ")
    assert found.endswith("fewest of those that came to the end: as many as hybridjoin.")
    assert "cachejoin read 3 pages for 16,384 stream rows" in shown([slow], case=case)


def test_what_is_above_the_bound_is_marked() -> None:
    rows = [result("rootjoin", 1e6, rows_per_read=2000.0), result("hybridjoin", 1e6)]
    first, second = (line for line in shown(rows).splitlines() if "1.00 M" in line)
    assert "125 %‡" in first
    assert "‡" not in second


def reads(**pages: int) -> list[dict[str, Any]]:
    ranked = sorted(pages.items(), key=lambda one: one[1])
    return [result(name.replace("_", "-"), 1e6, page_reads=count) for name, count in ranked]


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        (
            {"rootjoin": 1_000, "hybridjoin": 2_040, "meshjoin": 48_000, "ssij": 3_000},
            "the fewest: 2.0 times fewer than hybridjoin and 48 times fewer than meshjoin.",
        ),
        (
            {"cachejoin": 1_000, "rootjoin": 1_234, "hybridjoin": 5_000},
            "1.23 times fewer than rootjoin and 5.0 times fewer than hybridjoin.",
        ),
        (
            {"ssij": 10, "rootjoin": 20, "hybridjoin": 30, "meshjoin": 40},
            "than rootjoin, 3.0 times fewer than hybridjoin and 4.0 times fewer than meshjoin.",
        ),
        (
            {"ssij": 1_000, "sscj": 1_000},
            "ssij read 1,000 pages for 100,000,000 stream rows, the fewest: as many as sscj.",
        ),
        (
            {"hybridjoin": 8_000},
            "hybridjoin read 8,000 pages for 100,000,000 stream rows: one page for 12,500.0 rows.",
        ),
        ({"rootjoin": 0, "inlj": 5}, "rootjoin read no pages for 100,000,000 stream rows."),
    ],
)
def test_the_finding_is_one_sentence(pages: dict[str, int], said: str) -> None:
    results = reads(**pages)
    assert finding(results).endswith(said)
    assert " ".join(shown(results).split()).endswith(said)


def test_without_baselines() -> None:
    text = shown(
        [
            result(
                "rootjoin",
                1e6,
                in_memory_rows_per_second=None,
                in_memory_bytes=None,
                polars_rows_per_second=None,
            )
        ]
    )
    assert "Polars" not in text
    assert "all of R in memory" not in text
