from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.bench import JoinCase
from penstock.bench.join import measure_join

TIMES = (
    "seconds",
    "flush_seconds",
    "rows_per_second",
    "steady_rows_per_second",
    "core_wait_seconds",
)


def counts(result: dict[str, Any]) -> dict[str, Any]:
    """What is the same in every run: all but seconds and what the system says of memory."""
    return {k: v for k, v in result.items() if k not in (*TIMES, "rss_growth_bytes", "compiled")}


def missing_rows(case: JoinCase) -> int:
    return int(
        np.count_nonzero(case.workload().rows(0, case.stream)["product_id"].to_numpy() % 2 == 0)
    )


@pytest.mark.parametrize("name", ["hybridjoin", "meshjoin", "rootjoin"])
def test_counts_add_up(
    name: str, case: JoinCase, page_file: str, feed_of: Callable[..., Any]
) -> None:
    result = measure_join(name, case, page_file, feed_of(case))
    assert result["rows_in"] == result["rows_out"] == case.stream
    assert result["unmatched"] == missing_rows(case)
    assert result["cache_hits"] + result["rows_read_for"] == case.stream
    assert 0 < result["io_reads"] <= result["page_reads"]
    assert result["bytes_read"] >= result["page_reads"] * 3000
    assert 0 < result["held_bytes_max"] <= result["budget_bytes"] == 300_000
    assert sum(result["held_by_part"].values()) == result["held_bytes_max"]
    assert result["wait_rows_p50"] <= result["wait_rows_p99"] <= result["wait_rows_max"]
    assert 0 < result["flush_seconds"] < result["seconds"]
    assert result["rows_per_second"] == pytest.approx(
        case.stream / (result["seconds"] - result["flush_seconds"])
    )
    assert result["rows_per_read_over"] == "steady part"
    assert 1 < result["rows_per_read"] < 1.2 * result["bound_rows_per_read"]
    assert 0 < result["steady_page_reads"] < result["page_reads"]


def test_the_same_seed_gives_the_same_counts(
    case: JoinCase, page_file: str, feed_of: Callable[..., Any]
) -> None:
    first, second = (measure_join("rootjoin", case, page_file, feed_of(case)) for _ in range(2))
    assert counts(first) == counts(second)
    other = replace(case, seed=8)
    assert counts(measure_join("rootjoin", other, page_file, feed_of(other))) != counts(first)


def test_rootjoin_is_nearer_to_the_bound_than_hybridjoin(
    case: JoinCase, page_file: str, feed_of: Callable[..., Any]
) -> None:
    case = replace(case, stream=90_000, missing=0.0, order="by-frequency")
    shares = []
    for name in ("rootjoin", "hybridjoin"):
        result = measure_join(name, case, page_file, feed_of(case))
        shares.append(result["rows_per_read"] / result["bound_rows_per_read"])
    assert shares[0] > 0.8
    assert shares[1] < 0.7


def test_a_window_that_never_fills_counts_over_the_whole_run(
    case: JoinCase, page_file: str, feed_of: Callable[..., Any]
) -> None:
    case = replace(case, stream=3_000)
    result = measure_join("hybridjoin", case, page_file, feed_of(case))
    assert result["rows_per_read_over"] == "whole run"
    assert result["rows_per_read"] == 3_000 / result["page_reads"]
    assert result["bound_rows_per_read"] > result["rows_per_read"]


def test_inlj_reads_a_page_for_each_row(
    case: JoinCase, page_file: str, feed_of: Callable[..., Any]
) -> None:
    case = replace(case, stream=3_000)
    result = measure_join("inlj", case, page_file, feed_of(case))
    assert result["page_reads"] == 3_000
    assert result["rows_per_read"] == 1.0
    assert result["bound_rows_per_read"] > 1.0


def test_r_that_fits_is_read_once_and_has_no_bound(
    case: JoinCase, page_file: str, feed_of: Callable[..., Any]
) -> None:
    case = replace(case, budget="4MB")
    result = measure_join("rootjoin", case, page_file, feed_of(case))
    assert result["page_reads"] == result["pages"]
    assert result["rows_read_for"] == 0
    assert result["rows_per_read"] == 0
    assert result["bound_rows_per_read"] is None


def test_a_limit_stops_after_the_batch_that_reaches_it(
    case: JoinCase, page_file: str, feed_of: Callable[..., Any]
) -> None:
    case = replace(case, limit=1e-9)
    result = measure_join("hybridjoin", case, page_file, feed_of(case))
    assert result["rows_in"] == result["rows_out"] == case.batch_rows


def test_max_wait_bounds_the_wait(
    case: JoinCase, page_file: str, feed_of: Callable[..., Any]
) -> None:
    case = replace(case, max_wait=2_000)
    result = measure_join("hybridjoin", case, page_file, feed_of(case))
    assert result["wait_rows_max"] <= 2_000
