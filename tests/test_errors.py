"""Words that errors are made of."""

from __future__ import annotations

import pickle

import pytest

from penstock.budget import parse_bytes
from penstock.errors import BudgetError, OptionError, SizeError, counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12_345, "12,345 rows")]
)
def test_counted(number: int, said: str) -> None:
    assert counted(number, "row") == said


def test_a_size_that_is_none_is_a_wrong_option_and_a_matter_of_the_budget() -> None:
    with pytest.raises(SizeError) as refused:
        parse_bytes("lots")
    assert isinstance(refused.value, BudgetError)
    assert isinstance(refused.value, OptionError)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
