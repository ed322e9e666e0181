from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from penstock.bench import JoinCase
from penstock.cli.bench_table import print_results
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
        (row,) = [line for line in lines if line.split()[:1] == [name]]
        assert "…" not in row
        assert "1.53 k" in row


def test_the_fastest_comes_first_and_baselines_last() -> None:
    text = shown([result("hybridjoin", 1e6), result("rootjoin", 3.31e6), result("inlj", 1234)])
    order = ["rootjoin", "hybridjoin", "inlj", "all of R in memory", "Polars"]
    places = [text.index(name) for name in order]
    assert places == sorted(places)
    for part in ("3.31 M", "166 %", "1.23 k", "400 %", "61 %", "96 %", "240.0 MB"):
        assert part in text


def test_what_is_not_known_is_a_dash() -> None:
    unknown = result("rootjoin", 1e6, bound_rows_per_read=None, rss_growth_bytes=None)
    (row,) = [line for line in shown([unknown]).splitlines() if "rootjoin" in line]
    assert row.count("–") == 2


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"rows_per_read_over": "whole run"}, "the window never filled"),
        ({"rows_per_read": 2000.0}, "a cache was learning"),
        ({"core_wait_seconds": 20.0}, "waited up to 20 % of its time for the core"),
        ({"direct": False}, "takes no direct reads"),
        ({"polars_rows_per_second": None}, "pip install 'penstock[bench]'"),
    ],
)
def test_a_note_where_it_is_needed(others: dict[str, Any], said: str) -> None:
    assert said not in shown([result("rootjoin", 1e6)])
    assert said in " ".join(shown([result("rootjoin", 1e6, **others)]).split())


def test_a_join_that_was_stopped_is_marked() -> None:
    case = JoinCase(rows=2_000_000, stream=CASE.stream, limit=2.5)
    slow = result("inlj", 3e3, rows_in=16_384, cache_hits=0)
    text = shown([result("rootjoin", 1e6), slow], case=case)
    assert "inlj†" in text
    assert "rootjoin†" not in text
    assert "† inlj was stopped after 2.5 s, at 16,384 of 100,000,000 rows." in text


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
