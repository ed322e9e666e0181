"""Sizes as people write them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.budget import Size, format_bytes, parse_bytes, too_small
from penstock.errors import BudgetError, PenstockError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1, 1),
        (50_000_000, 50_000_000),
        ("1", 1),
        ("512B", 512),
        ("50MB", 50_000_000),
        ("50 mb", 50_000_000),
        (" 1.5 GB ", 1_500_000_000),
        ("2TB", 2 * 10**12),
        ("64KiB", 65_536),
        ("64 kib", 65_536),
        ("1.5MiB", 1_572_864),
        ("1GiB", 2**30),
        ("1TiB", 2**40),
        ("0.5KB", 500),
        (".5GB", 500_000_000),
        ("5K", 5_000),
        ("5M", 5_000_000),
        ("5m", 5_000_000),
        ("1.5 G", 1_500_000_000),
        ("2T", 2 * 10**12),
        ("64Ki", 65_536),
        ("2 mi", 2 * 2**20),
        ("1e6", 1_000_000),
        ("1.5E+7", 15_000_000),
        ("50_000_000", 50_000_000),
        (5e7, 50_000_000),
        (np.int64(4096), 4096),
        (np.float64(4096), 4096),
    ],
)
def test_sizes_are_understood(text: Size, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "MB", "fifty", "nan", "50 XB", "5 0MB", "-5MB", "1,5MB", "50,000,000", "50MBs"),
        *("5e", "1e-3", "1e400", "1__0", "50Mbit", "0", "0.0001B"),
    ],
)
def test_what_is_no_size_is_refused_with_examples(wrong: str) -> None:
    with pytest.raises(BudgetError) as caught:
        parse_bytes(wrong)
    assert repr(wrong) in str(caught.value)
    assert "'50MB'" in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [0, -1, True, 1.5, float("nan"), float("inf"), None, b"5MB", ["5MB"]]
)
def test_what_is_no_number_of_bytes_is_refused(wrong: object) -> None:
    with pytest.raises(BudgetError) as caught:
        parse_bytes(wrong)  # type: ignore[arg-type]
    assert repr(wrong) in str(caught.value)
    assert "'50MB'" in str(caught.value)


def test_the_error_is_also_a_value_error() -> None:
    assert issubclass(BudgetError, ValueError)
    assert issubclass(BudgetError, PenstockError)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (50_000_000, "50.0 MB"),
        (1_234_567_890, "1.2 GB"),
        (3 * 10**12, "3.0 TB"),
        (-1500, "-1.5 kB"),
    ],
)
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text


@given(st.integers(1, 10**15))
def test_what_is_written_can_be_read(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == pytest.approx(size, rel=0.06)


def test_a_budget_too_small_names_every_part_and_the_least() -> None:
    error = too_small("MESHJOIN", 2_000_000, {"page": 2_000_000, "queue": 1_100_000, "cache": 0})
    text = str(error)
    for part in (
        "MESHJOIN needs at least 3.1 MB",
        "page 2.0 MB",
        "queue 1.1 MB",
        "is 2.0 MB",
        "3100000",
    ):
        assert part in text
    assert "cache" not in text
