"""Options of the test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock")
    group.addoption(
        "--conformance",
        choices=["pairwise", "all"],
        default="pairwise",
        help="joins, masters, kinds of keys and checks: every pair of two, or every combination",
    )
    group.addoption(
        "--conformance-seed",
        type=int,
        default=7,
        help="which combinations --conformance=pairwise takes",
    )
