"""What a figure's file may say: numbers in their ranges, options of checks by their types.

What is wrong is said before anything runs: a claim that breaks when it is judged costs hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from math import isfinite
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from penstock.experiments.case import Case, ExperimentError
from penstock.experiments.shapes import CHECKS
from penstock.joins.names import NAMES

_OF_CASE = frozenset(field.name for field in fields(Case))
ON_X = ("at", "except_at", "until", "first")
"""Options of checks that are values of the x axis, written at the paper's scale. Others that are
sizes are named by the claim itself: `scaled`."""


def require_field(name: str, value: Any) -> None:
    """Raise unless a field of the case may be this."""
    if name == "predict":
        allowed, wanted = isinstance(value, bool), "is true or false"
    elif name == "windows":
        two = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
        allowed = two and value[0] >= 0 and value[1] > 0
        wanted = "are two numbers, [before, during]"
    elif name == "missing":
        allowed, wanted = _is_number(value) and 0 <= value < 1, "is a number from 0 to less than 1"
    elif name == "skew":
        allowed, wanted = _is_number(value) and 0 <= value <= 2, "is a number from 0 to 2"
    else:
        least = 0 if name == "seed" else 1
        allowed = _is_number(value) and value >= least and value == int(value)
        wanted = f"is a whole number, {least} or more"
    if not allowed:
        raise ExperimentError(f"{name} {wanted}, not {value!r}.")


def require_options(join: str, names: Sequence[str]) -> None:
    """Raise unless the join's plan has options of these names."""
    make = NAMES.get(join)
    if make is None:
        return
    plan: Any = make.func if isinstance(make, partial) else make
    known = sorted({field.name for field in fields(plan) if field.init} - _OF_CASE)
    for name in names:
        if name in _OF_CASE:
            raise ExperimentError(f"{name} is a field of the case, no option of {join}.")
        if name not in known:
            there = ", ".join(known) or "none"
            raise ExperimentError(f"{join} has no option {name!r}; its options are {there}.")


def require_claim(check: str, said: Mapping[str, Any]) -> None:
    """Raise unless every option of a claim is what its check takes."""
    kinds = {name: kind for name, kind in get_type_hints(CHECKS[check]).items() if name in said}
    for name, value in said.items():
        kind = _OF_VERDICTS.get(name) or kinds[name]
        may_be_size = name in ON_X or name in said.get("scaled", ())
        wanted = _wanted(kind, value, size=may_be_size)
        if wanted and (name, value) != ("more", "batch"):
            raise ExperimentError(f"{name} of {check} is {wanted}, not {value!r}.")
    for name in said.get("scaled", ()):
        if name not in kinds:
            raise ExperimentError(f"{check} has no {name!r} that could be scaled.")
    if "unscale" in said and "scaled_by" not in get_type_hints(CHECKS[check]):
        raise ExperimentError(f"what {check} compares cannot be unscaled.")
    at, numbers = said.get("at"), said.get("wanted")
    if isinstance(at, list) and isinstance(numbers, list) and len(at) != len(numbers):
        raise ExperimentError(f"{len(numbers)} numbers are wanted at {len(at)} x ({check}).")


_OF_VERDICTS: Mapping[str, Any] = {
    "counted": str | None,
    "measured": str | None,
    "panels": Sequence[Any],
    "scaled": Sequence[str],
    "unscale": bool,
}
"""What a claim says that `penstock.experiments.verdicts` takes, and not the check itself."""
OF_VERDICTS = frozenset(_OF_VERDICTS)


def _wanted(kind: Any, value: Any, *, size: bool) -> str:
    """What an option of this type is, in words; nothing if the value is one."""
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return "" if value in arguments else " or ".join(map(repr, arguments))
    if NoneType in arguments:
        return "" if isinstance(value, str) else "a name"
    if get_origin(kind) is tuple:
        of_two = isinstance(value, list) and len(value) == len(arguments)
        return "" if of_two and all(isinstance(v, str) for v in value) else "two names"
    if arguments:
        names = "names" if arguments[0] is str else "values"
        whole = isinstance(value, list) and bool(value)
        wrong = not whole or any(_wanted(arguments[0], one, size=size) for one in value)
        return f"a list of {names}" if wrong else ""
    if kind is str:
        return "" if isinstance(value, str) and value else "a name"
    if kind is bool:
        return "" if isinstance(value, bool) else "true or false"
    if kind is int:
        return "" if type(value) is int and value >= 2 else "a whole number, 2 or more"
    if kind is float:
        return "" if _is_number(value) or (size and isinstance(value, str)) else "a number"
    return "a value" if isinstance(value, list | dict) else ""


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and isfinite(value)
