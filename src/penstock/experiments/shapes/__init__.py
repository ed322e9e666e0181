"""Whether a figure shows what its paper claims: one small check for each kind of shape.

A check looks at one quantity in one panel and says whether the shape is there, with the numbers on
which it rests. `penstock.experiments.verdicts` asks it for every panel and both clocks.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.experiments.case import ExperimentError
from penstock.experiments.shapes import comparing, curves, numbers, surfaces
from penstock.experiments.shapes.lines import Finding, Lines

__all__ = ["CHECKS", "Finding", "Lines", "check_named"]

Check = Callable[..., Finding]
CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        comparing.best,
        comparing.best_from,
        comparing.ahead,
        comparing.near,
        comparing.behind_at,
        comparing.gap_grows,
        comparing.larger_gain,
        comparing.falls_slower,
        comparing.most_at,
        comparing.loses_little,
        comparing.below_until,
        comparing.at_most_share,
        comparing.losses_near,
        curves.grows,
        curves.falls,
        curves.flattens,
        curves.one_maximum,
        curves.moves,
        curves.maximum_near,
        curves.knee,
        curves.falls_at_first,
        curves.plateau_then_drop,
        curves.slope_near,
        curves.no_more_than_x,
        surfaces.one_summit,
        numbers.close,
        numbers.values_near,
        numbers.no_more_than,
        numbers.no_less_than,
        numbers.no_more_than_from,
        numbers.all_between,
    )
}
"""By the name that a figure's file gives."""


def check_named(name: str) -> Check:
    if name not in CHECKS:
        raise ExperimentError(f"no check is named {name!r}; they are {', '.join(CHECKS)}.")
    return CHECKS[name]
