"""Sizes that are chosen by the budget: the largest that leaves room for everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from penstock.errors import BudgetError
from penstock.joins.sizing import Sizing

Choice = TypeVar("Choice")


def halvings(most: int, least: int = 1) -> list[int]:
    """From `most` down to `least`, each half of the one before.

    >>> halvings(20), halvings(1), halvings(5, 0)
    ([20, 10, 5, 2, 1], [1], [5, 2, 1, 0])
    """
    sizes = [max(most, least)]
    while sizes[-1] > least:
        sizes.append(max(sizes[-1] // 2, least))
    return sizes


def first_that_fits(
    choices: Iterable[Choice], sizing: Callable[[Choice], Sizing]
) -> tuple[Choice, Sizing]:
    """The first choice for which the budget can be shared out; if none, the last one's error."""
    *others, last = choices
    for choice in others:
        with suppress(BudgetError):
            return choice, sizing(choice)
    return last, sizing(last)
