"""Each check on lines that show the shape, on some that just do not, and on none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from math import inf
from typing import Any

import pytest

from penstock.experiments.case import ExperimentError
from penstock.experiments.shapes import CHECKS, Finding, Lines, check_named
from penstock.experiments.shapes.lines import NOTHING

Line = Mapping[Any, float] | Sequence[float]


def lines(**series: Line) -> Lines:
    """Means by x; a sequence has x 1, 2, 3 and so on."""
    return Lines(
        {
            name: [
                (x, None, mean)
                for x, mean in (
                    line.items() if isinstance(line, Mapping) else enumerate(line, start=1)
                )
            ]
            for name, line in series.items()
        }
    )


def judged(check: str, options: Mapping[str, Any], **series: Line) -> Finding:
    return check_named(check)(lines(**series), **options)


ONE = {"series": "a"}
TWO = {"series": "a", "of": "b"}
AMONG = {"series": "a", "among": ["b", "c"]}

CASES: list[tuple[str, dict[str, Any], dict[str, Line], bool]] = [
    # -- one line beside others ------------------------------------------------------------------
    ("best", AMONG, {"a": [5, 5], "b": [4, 3], "c": [1, 2]}, True),
    ("best", AMONG, {"a": [5, 5], "b": [4, 3], "c": [1, 5.1]}, False),
    ("best", AMONG, {"a": [5, 4.96], "b": [4, 5], "c": [1, 1]}, True),  # as high, within 1 %
    ("best", AMONG, {"a": [5, 4.94], "b": [4, 5], "c": [1, 1]}, False),
    ("best", AMONG, {"a": [5, 5], "b": [5, 5], "c": [1, 1]}, False),  # the same everywhere
    ("best", AMONG | {"within": 0.1}, {"a": [5, 5], "b": [5.4, 2], "c": [1, 1]}, True),
    ("best", AMONG | {"except_at": [1]}, {"a": [1, 5], "b": [5, 4], "c": [1, 1]}, True),
    ("best", AMONG, {"a": [5], "b": [4, 3], "c": [1, 2]}, True),  # what is not run yet
    ("best", AMONG, {"a": [5, 5], "b": [4], "c": [1]}, True),
    ("best", AMONG, {"a": [5, 5], "b": [4, 0], "c": [1, 0]}, True),
    ("best_from", AMONG | {"first": 2}, {"a": [1, 5], "b": [4, 4], "c": [0, 1]}, True),
    ("best_from", AMONG | {"first": 1}, {"a": [1, 5], "b": [4, 4], "c": [0, 1]}, False),
    ("best_from", AMONG | {"first": 2}, {"a": {2: 5}, "b": [4, 4], "c": [9, 1]}, True),
    ("ahead", TWO, {"a": [2, 1], "b": [1, 1]}, True),
    ("ahead", TWO, {"a": [2, 0.98], "b": [1, 1]}, False),
    ("ahead", TWO, {"a": [1, 1.005], "b": [1, 1]}, False),  # the same is not ahead
    ("ahead", TWO | {"by": 3.0}, {"a": [3, 4], "b": [1, 1]}, True),
    ("ahead", TWO | {"by": 3.0}, {"a": [2.9, 4], "b": [1, 1]}, False),
    ("ahead", TWO | {"by": 0.9, "within": 0.0}, {"a": [0.9, 0.95], "b": [1, 1]}, True),
    ("ahead", TWO | {"by": 0.9, "within": 0.0}, {"a": [0.899, 1], "b": [1, 1]}, False),
    ("ahead", TWO | {"first": 2}, {"a": [0.5, 2], "b": [1, 1]}, True),
    ("behind_at", TWO | {"at": 2}, {"a": [2, 0.98], "b": [1, 1]}, True),
    ("behind_at", TWO | {"at": 2}, {"a": [0.5, 0.995], "b": [1, 1]}, False),
    ("gap_grows", TWO, {"a": [2, 9, 4], "b": [1, 9, 2]}, True),
    ("gap_grows", TWO, {"a": [2, 3], "b": [1, 2]}, False),
    ("gap_grows", TWO, {"a": [1, 2], "b": [9, 3]}, False),  # nearer, and still below
    ("gap_grows", TWO | {"ratio": True}, {"a": [2, 4], "b": [1, 3]}, False),
    ("gap_grows", TWO | {"ratio": True}, {"a": [2, 4], "b": [1, 1.9]}, True),
    (
        "larger_gain",
        {"series": ["a", "b"], "than": ["c", "d"]},
        {"a": [3, 2], "b": [1, 1], "c": [2, 1.5], "d": [1, 1]},
        True,
    ),
    (
        "larger_gain",
        {"series": ["a", "b"], "than": ["c", "d"]},
        {"a": [3, 1.5], "b": [1, 1], "c": [2, 1.5], "d": [1, 1]},
        False,
    ),
    (
        "larger_gain",
        {"series": ["a", "b"], "than": ["c", "d"]},
        {"a": [3, 2], "b": [1, 1], "c": [2, 1.99], "d": [1, 1]},  # as good as the same
        False,
    ),
    (
        "larger_gain",
        {"series": ["a", "b"], "than": ["c", "d"]},
        {"a": [0.9, 0.9], "b": [1, 1], "c": [0.5, 0.5], "d": [1, 1]},  # a smaller loss is no gain
        False,
    ),
    ("falls_slower", {"series": "a", "than": "b"}, {"a": [9, 1, 6], "b": [10, 9, 5]}, True),
    ("falls_slower", {"series": "a", "than": "b"}, {"a": [12, 6], "b": [10, 5]}, False),
    ("falls_slower", {"series": "a", "than": "b"}, {"a": [9, 4.52], "b": [10, 5]}, False),
    ("most_at", TWO | {"end": "first"}, {"a": [2, 1.5, 1.9], "b": [1, 1, 1]}, True),
    ("most_at", TWO | {"end": "first"}, {"a": [2, 2.1, 1], "b": [1, 1, 1]}, False),
    ("most_at", TWO | {"end": "last"}, {"a": [2, 1, 2.1], "b": [1, 1, 1]}, True),
    ("most_at", TWO | {"end": "first"}, {"a": [1.005, 1, 0.9], "b": [1, 1, 1]}, False),
    ("loses_little", TWO | {"at_most": 0.02}, {"a": [0.99, 0.981], "b": [1, 1]}, True),
    ("loses_little", TWO | {"at_most": 0.02}, {"a": [0.99, 0.979], "b": [1, 1]}, False),
    (
        "below_until",
        {"series": "a", "others": ["b"], "until": 3},
        {"a": [1, 1, 9, 9], "b": [2, 2, 2, 2]},
        True,
    ),
    (
        "below_until",
        {"series": "a", "others": ["b"], "until": 3},
        {"a": [1, 1, 1, 9], "b": [2, 2, 2, 2]},  # just there, either may be
        True,
    ),
    (
        "below_until",
        {"series": "a", "others": ["b"], "until": 2},
        {"a": [1, 1, 1, 9], "b": [2, 2, 2, 2]},  # still the lowest beyond
        False,
    ),
    (
        "below_until",
        {"series": "a", "others": ["b", "c"], "until": 3},
        {"a": [1, 1, 9, 9], "b": [2, 2, 2, 2], "c": [2, 1, 2, 2]},
        False,
    ),
    ("near", TWO | {"within": 0.1}, {"a": [1.09, 0.91], "b": [1, 1]}, True),
    ("near", TWO | {"within": 0.1}, {"a": [1.11, 1], "b": [1, 1]}, False),
    ("near", TWO | {"within": 0.1}, {"a": [0.89, 1], "b": [1, 1]}, False),
    ("at_most_share", TWO | {"share": 0.5}, {"a": [1, 2], "b": [2, 4]}, True),
    ("at_most_share", TWO | {"share": 1.0}, {"a": [1, 2], "b": [2, 4]}, True),
    ("at_most_share", TWO | {"share": 1.0}, {"a": [1, 2], "b": [2, 2]}, False),
    ("at_most_share", TWO | {"share": 0.5}, {"a": [1, 2.1], "b": [2, 4]}, False),
    (
        "losses_near",
        TWO | {"at": [2, 3], "wanted": [0.01, 0.02], "within": 0.005},
        {"a": [0.5, 0.986, 0.984], "b": [1, 1, 1]},
        True,
    ),
    (
        "losses_near",
        TWO | {"at": [2, 3], "wanted": [0.01, 0.02], "within": 0.005},
        {"a": [1, 0.99, 0.986], "b": [1, 1, 1]},
        False,
    ),
    # -- the shape of one line -------------------------------------------------------------------
    ("grows", ONE, {"a": [1, 2, 1.99, 3]}, True),
    ("grows", ONE, {"a": [1, 2, 1.9, 3]}, False),
    ("grows", ONE, {"a": [1, 1.005, 1]}, False),  # not in all
    ("grows", ONE | {"within": 0.05}, {"a": [1, 1.02, 1.04]}, False),  # by no more than allowed
    ("grows", ONE | {"within": 0.2}, {"a": [1, 2, 1.9, 3]}, True),
    ("falls", ONE, {"a": [3, 2, 2.01, 1]}, True),
    ("falls", ONE, {"a": [3, 2, 2.1, 1]}, False),
    ("falls", ONE, {"a": [3, 0, -1]}, True),
    ("flattens", ONE, {"a": [10, 5, 2, 1.05, 1, 1.09]}, True),
    ("flattens", ONE, {"a": [10, 5, 2, 1.11, 1, 1.09]}, False),
    ("flattens", ONE, {"a": [8, 4, 2, 1, 0.5]}, False),  # falls on and on
    ("flattens", ONE | {"points": 2}, {"a": [8, 4, 2, 2]}, True),
    ("one_maximum", ONE, {"a": [1, 3, 2.97, 4, 2]}, True),  # a dip of noise
    ("one_maximum", ONE, {"a": [1, 3, 2, 4, 2]}, False),  # a second one
    ("one_maximum", ONE, {"a": [1, 2, 3]}, False),
    ("one_maximum", ONE, {"a": [2.99, 2.995, 3, 1]}, False),  # not inside
    ("one_maximum", ONE | {"inside": False}, {"a": [1, 2, 3]}, True),
    (
        "moves",
        {"series": ["a", "b", "c"], "to": "lower"},
        {"a": [1, 2, 3], "b": [1, 3, 2], "c": [1, 3, 2]},
        True,
    ),
    (
        "moves",
        {"series": ["a", "b", "c"], "to": "lower"},
        {"a": [1, 3, 2], "b": [1, 2, 3], "c": [3, 2, 1]},  # there and back
        False,
    ),
    ("moves", {"series": ["a", "b"], "to": "lower"}, {"a": [1, 3, 2], "b": [1, 3, 2]}, False),
    ("moves", {"series": ["a", "b"], "to": "upper"}, {"a": [1, 3, 2], "b": [1, 2, 3]}, True),
    ("maximum_near", ONE | {"at": 2.2, "within": 0.3}, {"a": [1, 3, 2]}, True),
    ("maximum_near", ONE | {"at": 2.2, "within": 0.1}, {"a": [1, 3, 2]}, False),
    ("knee", ONE, {"a": [5, 9, 10, 9.5]}, True),
    ("knee", ONE, {"a": [8.9, 9.5, 10, 9.5]}, False),  # no rise
    ("knee", ONE, {"a": [5, 8, 10, 8]}, False),  # a peak
    ("knee", ONE, {"a": [5, 9.5, 5, 10, 5]}, False),  # two peaks are no wide top
    ("falls_at_first", ONE, {"a": [4, 3, 2, 1, 9]}, True),
    ("falls_at_first", ONE, {"a": [4, 3, 3, 1, 0]}, False),
    ("falls_at_first", ONE | {"points": 2}, {"a": [4, 3, 3]}, True),
    ("plateau_then_drop", ONE, {"a": [9.1, 9.5, 10, 9.2, 7.9]}, True),
    ("plateau_then_drop", ONE, {"a": [9.1, 9.5, 10, 9.2, 8.1]}, False),  # no drop
    ("plateau_then_drop", ONE, {"a": [5, 9.5, 10, 9.2, 7]}, False),  # too narrow
    ("plateau_then_drop", ONE, {"a": [9.1, 5, 10, 9.2, 7]}, False),  # a gap in it
    ("plateau_then_drop", ONE, {"a": {1: 10, 2: 9.5, 4: 9.1, 8: 8.5, 12: 7.9, 24: 7.0}}, True),
    ("plateau_then_drop", ONE, {"a": {1: 10, 2: 9.5, 4: 9.1, 8: 8.5, 13: 7.9, 24: 7.0}}, False),
    ("plateau_then_drop", ONE, {"a": {1: 10, 2: 9.5, 4: 9.1, 8: 7.9, 13: 8.5, 24: 7.0}}, False),
    ("slope_near", ONE | {"slope": -1.0, "within": 0.05}, {"a": {1: 8, 2: 4.1, 8: 1}}, True),
    ("slope_near", ONE | {"slope": -1.0, "within": 0.05}, {"a": {1: 8, 2: 4.5, 8: 1}}, False),
    ("no_more_than_x", ONE | {"more": 1.0}, {"a": {10: 11, 20: 15}}, True),
    ("no_more_than_x", ONE | {"more": 1.0}, {"a": {10: 11.1, 20: 15}}, False),
    # -- numbers ---------------------------------------------------------------------------------
    ("close", {"model": "a", "to": "b", "within": 0.05}, {"a": [1.079, 0.98], "b": [1, 1]}, True),
    ("close", {"model": "a", "to": "b", "within": 0.05}, {"a": [1.08, 0.97], "b": [1, 1]}, False),
    *(
        ("close", {"model": "a", "to": "b", "within": 0.05, "shape": True}, drawn, holds)
        for drawn, holds in [
            ({"a": [10, 20, 10], "b": [1, 2, 1.1]}, True),
            ({"a": [10, 20, 10], "b": [1, 2, 1.3]}, False),
        ]
    ),
    ("values_near", ONE | {"wanted": [1, 2], "within": 0.1}, {"a": [1.1, 1.82, 9]}, True),
    ("values_near", ONE | {"wanted": [1, 2], "within": 0.1}, {"a": [1.1, 1.81, 9]}, False),
    (
        "values_near",
        ONE | {"wanted": [20, 40], "within": 0.1, "scaled_by": 20.0},
        {"a": [1, 2]},
        True,
    ),
    (
        "values_near",
        ONE | {"wanted": [4, 2], "within": 0.1, "at": [3, 2]},
        {"a": [9, 2, 4]},
        True,
    ),
    ("no_more_than", ONE | {"most": 2.0}, {"a": [1, 2]}, True),
    ("no_more_than", ONE | {"most": 2.0}, {"a": [1, 2.001]}, False),
    ("no_less_than", ONE | {"least": 1.0}, {"a": [1, 2]}, True),
    ("no_less_than", ONE | {"least": 1.0}, {"a": [0.999, 2]}, False),
    ("no_more_than_from", ONE | {"most": 2.0, "first": 2, "last": 3}, {"a": [9, 2, 1, 9]}, True),
    ("no_more_than_from", ONE | {"most": 2.0, "first": 2, "last": 4}, {"a": [9, 2, 1, 9]}, False),
    ("all_between", {"series": ["a", "b"], "low": 1, "high": 2}, {"a": [1], "b": [2]}, True),
    ("all_between", {"series": ["a", "b"], "low": 1, "high": 2}, {"a": [1], "b": [2.1]}, False),
]


@pytest.mark.parametrize(
    ("check", "options", "series", "holds"),
    CASES,
    ids=[f"{check}-{number}" for number, (check, *_) in enumerate(CASES)],
)
def test_a_shape_is_seen_where_it_is_and_only_there(
    check: str, options: dict[str, Any], series: dict[str, Line], holds: bool
) -> None:
    found = judged(check, options, **series)
    assert found.holds is holds, found.said
    assert found.said
    assert found.numbers


EMPTY: dict[str, dict[str, Any]] = {}
for _check, _options, _, _ in CASES:
    EMPTY.setdefault(_check, _options)


def test_every_check_has_its_cases() -> None:
    assert {*EMPTY, "one_summit"} == set(CHECKS)
    for check in EMPTY:
        assert {holds for name, *_, holds in CASES if name == check} == {True, False}, check


@pytest.mark.parametrize("check", sorted(CHECKS))
def test_without_points_there_is_nothing_to_judge(check: str) -> None:
    assert CHECKS[check](Lines({}), **EMPTY.get(check, ONE)) is NOTHING


@pytest.mark.parametrize(
    ("check", "options", "series"),
    [
        ("best", AMONG, {"a": [5, 5]}),
        ("ahead", TWO | {"first": 3}, {"a": [5, 5], "b": [1, 1]}),
        ("behind_at", TWO | {"at": 3}, {"a": [5, 5], "b": [9, 9]}),
        ("gap_grows", TWO, {"a": [2, 3], "b": [1]}),
        ("most_at", TWO | {"end": "first"}, {"a": [2, 3], "b": [1]}),
        ("below_until", {"series": "a", "others": ["b"], "until": 9}, {"a": [1, 1], "b": [2, 2]}),
        ("below_until", {"series": "a", "others": ["b"], "until": 1}, {"a": [1, 1], "b": [2, 2]}),
        ("losses_near", TWO | {"at": [3], "wanted": [0.1], "within": 1}, {"a": [1], "b": [1]}),
        ("moves", {"series": ["a", "b"], "to": "lower"}, {"a": [1, 2]}),
        ("knee", ONE, {"a": [1, 2, 2]}),
        ("slope_near", ONE | {"slope": 1.0, "within": 1.0}, {"a": {0: 1, 1: 2, 2: 3}}),
        ("values_near", ONE | {"wanted": [1, 2], "within": 0.1}, {"a": [1]}),
        ("values_near", ONE | {"wanted": [1], "within": 0.1, "at": [7]}, {"a": [1]}),
        ("no_more_than_from", ONE | {"most": 2.0, "first": 5, "last": 9}, {"a": [1, 1]}),
    ],
)
def test_too_few_points_are_not_judged(
    check: str, options: dict[str, Any], series: dict[str, Line]
) -> None:
    assert judged(check, options, **series) is NOTHING


def test_lines_meet_by_x_and_not_by_place() -> None:
    found = judged("ahead", TWO, a={2: 4.0, 4: 4.0}, b={1: 9.0, 4: 2.0, 2: 1.0})
    assert found.holds
    assert found.numbers == {"ratio": {"2": 4.0, "4": 2.0}}


def test_a_finding_says_its_numbers_in_words() -> None:
    assert judged("best", AMONG, a=[6, 5], b=[4, 4], c=[1, 1]).said == (
        "1.25 × to 1.50 × the best other (least against b at 2)"
    )
    assert judged("close", {"model": "a", "to": "b", "within": 0.1}, a=[1.2, 1], b=[1, 1]).said == (
        "off by 10.0% on average, 20.0% at worst"
    )


def test_a_join_that_cannot_run_where_others_do_is_not_the_best() -> None:
    among = {"series": "a", "among": ["b"]}
    points = lines(a=[5], b=[4, 3]).points
    found = CHECKS["best"](Lines(points, {"a": [2]}), **among)
    assert not found.holds
    assert found.said.endswith("it cannot run at 2, where others do")
    assert CHECKS["best"](Lines(points, {"a": [2]}), **among, except_at=[2]).holds
    assert CHECKS["best"](Lines(points, {"a": [3]}), **among).holds  # nor do the others
    assert CHECKS["best"](Lines(points, {"b": [3]}), **among).holds
    assert not CHECKS["best_from"](Lines(points, {"a": [2]}), **among, first=1).holds


# -- surfaces --------------------------------------------------------------------------------------

SIDE = range(-3, 4)


def surface(*summits: tuple[float, float, float]) -> Lines:
    """The highest of some hills, (height, x, y) each."""
    return Lines(
        {
            "a": [
                (x, y, max(h * math.exp(-((x - a) ** 2 + (y - b) ** 2) / 3) for h, a, b in summits))
                for x, y in product(SIDE, SIDE)
            ]
        }
    )


def summit(found: Lines, **options: float) -> Finding:
    return check_named("one_summit")(found, series="a", **options)


def test_one_hill_is_one_summit() -> None:
    found = summit(surface((100, 0, 1)))
    assert found.holds
    assert found.numbers["best_at"] == [0, 1]
    assert found.numbers["other_summits"] == []


@pytest.mark.parametrize("height", [50, 99.5, 100])
def test_a_second_hill_is_seen_even_if_it_is_as_high_as_the_first(height: float) -> None:
    found = summit(surface((100, -2, -2), (height, 2, 2)))
    assert not found.holds
    assert found.numbers["other_summits"] == [[2, 2]]


@pytest.mark.parametrize(("bump", "seen"), [(1.9, False), (2.1, True)])
def test_a_bump_on_a_slope_is_a_summit_if_one_goes_down_far_from_it(
    bump: float, seen: bool
) -> None:
    heights = {(x, y): 100.0 - 20 * max(abs(x), abs(y)) for x, y in product(SIDE, SIDE)}
    heights[2, 2] = heights[1, 1] + bump
    found = summit(Lines({"a": [(x, y, height) for (x, y), height in heights.items()]}))
    assert found.numbers["other_summits"] == ([[2, 2]] if seen else [])
    assert found.holds is not seen


def test_a_ridge_without_a_dip_is_one_summit() -> None:
    ridge = Lines({"a": [(x, y, 100.0 - 30 * abs(x) - abs(y)) for x in SIDE for y in SIDE]})
    assert summit(ridge, within=0.02).holds
    level = Lines({"a": [(x, y, 100.0 - 30 * abs(x)) for x in SIDE for y in SIDE]})
    assert not summit(level).holds  # it does not fall to either end


@pytest.mark.parametrize("at", [(0, 3), (0, -3), (3, 0), (-3, 0)])
def test_a_summit_on_an_edge_is_none_inside(at: tuple[int, int]) -> None:
    assert not summit(surface((100, *at))).holds


@pytest.mark.parametrize(("edge", "inside"), [(99.5, False), (98.5, True)])
def test_a_summit_beats_every_edge_by_more_than_a_hundredth(edge: float, inside: bool) -> None:
    slope = Lines({"a": [(x, y, 100.0 - 9 * y * y - 5 * x * x) for x in SIDE for y in SIDE]})
    points = [(x, y, edge if (x, y) == (SIDE[-1], 0) else mean) for x, y, mean in slope.points["a"]]
    ridge = [(x, y, edge if y == 0 and x > 0 else mean) for x, y, mean in points]
    assert summit(Lines({"a": ridge})).holds is inside


def test_hills_parted_by_missing_points_are_two() -> None:
    points = [p for p in surface((100, -2, 0), (90, 2, 0)).points["a"] if p[0] != 0]
    assert summit(Lines({"a": points})).numbers["other_summits"] == [[2, 0]]


def test_a_surface_has_nine_points_at_least() -> None:
    points = surface((100, 0, 0)).points["a"]
    assert summit(Lines({"a": points[:8]})) is NOTHING


def test_a_share_of_nothing_is_no_point_that_is_left_out() -> None:
    there = lines(a={1: 5.0, 2: 0.0}, b={1: 0.0, 2: 0.0})
    assert there.ratios("a", "b") == {1: inf, 2: 1.0}
    assert not CHECKS["at_most_share"](there, series="a", of="b", share=2.0).holds
    assert not CHECKS["near"](there, series="a", of="b", within=0.1).holds


def test_where_a_series_is_nowhere_behind_there_is_no_loss_to_judge() -> None:
    ahead = Lines({"a": [(1, None, 2.0), (2, None, 1.0)], "b": [(1, None, 1.0), (2, None, 1.0)]})
    found = CHECKS["loses_little"](ahead, series="a", of="b", at_most=0.5)
    assert found.holds is None
    assert "nowhere behind" in found.said


def test_the_first_points_are_those_at_the_first_x() -> None:
    line = {"a": [(x, None, y) for x, y in ((2, 4.0), (3, 9.0))]}
    wanted = {"series": "a", "wanted": [4.0, 9.0], "within": 0.1}
    assert CHECKS["values_near"](Lines(line), **wanted).holds
    assert CHECKS["values_near"](Lines(line, {"a": [1]}), **wanted) is NOTHING
    assert CHECKS["values_near"](Lines(line, {}, {"a": [1]}), **wanted) is NOTHING
    falling = {"a": [(x, None, y) for x, y in ((2, 9.0), (3, 4.0))]}
    assert CHECKS["falls_at_first"](Lines(falling), series="a", points=2).holds
    assert CHECKS["falls_at_first"](Lines(falling, {"a": [1]}), series="a", points=2) is NOTHING


def test_a_gap_that_grows_by_less_than_a_hundredth_does_not_grow() -> None:
    for last, grows in ((201.0, False), (203.0, True)):
        there = lines(a={0: 200.0, 1: last}, b={0: 100.0, 1: 100.0})
        assert CHECKS["gap_grows"](there, series="a", of="b").holds is grows


def test_every_series_of_several_has_points() -> None:
    between = {"series": ["a", "b"], "low": 0.0, "high": 9.0}
    assert CHECKS["all_between"](lines(a={1: 2.0, 2: 3.0}), **between) is NOTHING
    assert CHECKS["all_between"](lines(a={1: 2.0, 2: 3.0}, b={1: 4.0}), **between).holds


def test_an_unknown_check_is_told_with_those_that_are_known() -> None:
    with pytest.raises(ExperimentError, match=r"no check is named 'bset'.*best"):
        check_named("bset")
