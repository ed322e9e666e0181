"""Calls that must be refused."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import PenstockError


def refusal(kind: type[PenstockError], call: Callable[[], object]) -> str:
    """The text of the error that the call raises; AssertionError when it raises none of the kind.

    >>> from penstock.budget import parse_bytes
    >>> from penstock.errors import BudgetError
    >>> refusal(BudgetError, lambda: parse_bytes(-1)).partition(";")[0]
    'a size must be above zero bytes'
    """
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"nothing was refused; a {kind.__name__} was expected")
