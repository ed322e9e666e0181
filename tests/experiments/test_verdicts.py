"""What becomes of a claim: in every panel, by both clocks, at either scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.experiments.figure import Figure, read
from penstock.experiments.intervals import single
from penstock.experiments.kinds.grid import Row
from penstock.experiments.scale import SCALES, Scale
from penstock.experiments.verdicts import judge

PAPER, SMALL = SCALES["paper"], SCALES["small"]
SORTED, UNSORTED = "order=by-frequency", "order=unsorted"
PRICED, MEASURED = "priced_rows_per_second", "rows_per_second"
FIGURE = """
paper = "hybridjoin"
figure = "7"
[x]
field = "skew"
label = "skew"
values = [0.0, 1.0]
[panels]
field = "order"
values = ["by-frequency", "unsorted"]
[[series]]
join = "hybridjoin"
[[series]]
join = "meshjoin"
"""
AHEAD = """
[[claims]]
text = "HYBRIDJOIN is
  ahead"
check = "ahead"
series = "hybridjoin"
of = "meshjoin"
""".replace("is\n  ahead", "is ahead")


def figure(claims: str = AHEAD, head: str = FIGURE) -> Figure:
    return read("000-9", head + claims)


def rows(ratios: Mapping[tuple[str, str], float]) -> list[Row]:
    """HYBRIDJOIN by MESHJOIN at two x, by panel and quantity; MESHJOIN has 100."""
    found: list[Row] = []
    for (panel, quantity), ratio in ratios.items():
        for x in (0.0, 1.0):
            found += [
                row("hybridjoin", x, {quantity: 100 * ratio}, panel),
                row("meshjoin", x, {quantity: 100}, panel),
            ]
    return found


def row(series: str, x: Any, values: Mapping[str, float], panel: str = "", y: Any = None) -> Row:
    shown = {name: single(value) for name, value in values.items()}
    return {"series": series, "panel": panel, "x": x, "y": y, "values": shown}


def only(verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    (verdict,) = verdicts
    return verdict


@pytest.mark.parametrize(
    ("ratios", "verdict", "condition"),
    [
        (
            {
                (SORTED, PRICED): 2,
                (SORTED, MEASURED): 3,
                (UNSORTED, PRICED): 2,
                (UNSORTED, MEASURED): 3,
            },
            "reproduced",
            "",
        ),
        ({(SORTED, PRICED): 2, (UNSORTED, PRICED): 2}, "reproduced", ""),
        (
            {(SORTED, PRICED): 2, (UNSORTED, PRICED): 2, (SORTED, MEASURED): 3},
            "with a condition",
            "no points for R unsorted, measured",
        ),
        ({(SORTED, PRICED): 0.5, (UNSORTED, PRICED): 0.5}, "not reproduced", ""),
        (
            {(SORTED, PRICED): 2, (UNSORTED, PRICED): 0.5},
            "with a condition",
            "only for R sorted by frequency",
        ),
        (
            {
                (SORTED, PRICED): 0.5,
                (SORTED, MEASURED): 0.5,
                (UNSORTED, PRICED): 2,
                (UNSORTED, MEASURED): 2,
            },
            "with a condition",
            "only for R unsorted",
        ),
        (
            {
                (SORTED, PRICED): 2,
                (SORTED, MEASURED): 0.5,
                (UNSORTED, PRICED): 2,
                (UNSORTED, MEASURED): 0.5,
            },
            "with a condition",
            "only counted",
        ),
        (
            {
                (SORTED, PRICED): 2,
                (SORTED, MEASURED): 2,
                (UNSORTED, PRICED): 2,
                (UNSORTED, MEASURED): 0.5,
            },
            "with a condition",
            "only for R sorted by frequency; R unsorted, counted",
        ),
        ({(SORTED, MEASURED): 2, (SORTED, PRICED): 0.5}, "with a condition", "only measured"),
        ({}, "not judged", ""),
        ({(SORTED, "hit_share"): 2}, "not judged", ""),
    ],
)
def test_a_verdict_says_where_a_claim_holds(
    ratios: dict[tuple[str, str], float], verdict: str, condition: str
) -> None:
    found = only(judge(figure(), PAPER, rows(ratios)))
    assert (found["verdict"], found["condition"]) == (verdict, condition)


def test_a_verdict_says_where_a_join_cannot_run() -> None:
    there = rows({(SORTED, PRICED): 2, (UNSORTED, PRICED): 2})
    refused = {**row("meshjoin", 2.0, {}, SORTED), "refused": "too little memory"}
    found = only(judge(figure(), PAPER, [*there, refused]))
    assert found["verdict"] == "reproduced"
    assert found["said"] == (
        "R sorted by frequency: 2.00 × meshjoin (cannot run: meshjoin at 2); "
        "R unsorted: 2.00 × meshjoin"
    ).replace("frequency:", "frequency, counted:").replace("unsorted:", "unsorted, counted:")


def test_a_verdict_carries_its_claim_its_words_and_its_numbers() -> None:
    ratios = {(SORTED, PRICED): 2.0, (UNSORTED, PRICED): 0.5, (UNSORTED, MEASURED): 4.0}
    assert only(judge(figure(), PAPER, rows(ratios))) == {
        "id": "000-9.1",
        "paper": "hybridjoin",
        "figure": "7",
        "claim": "HYBRIDJOIN is ahead",
        "verdict": "with a condition",
        "condition": "only for R sorted by frequency; R unsorted, measured",
        "said": "R sorted by frequency, counted: 2.00 × meshjoin; R unsorted, counted: no, "
        "0.50 × meshjoin; R unsorted, measured: 4.00 × meshjoin",
        "clocks": ["counted", "measured"],
        "findings": [
            "✓ R sorted by frequency, counted: 2.00 × meshjoin",
            "✗ R unsorted, counted: 0.50 × meshjoin",
            "✓ R unsorted, measured: 4.00 × meshjoin",
        ],
        "numbers": {
            "R sorted by frequency, counted": {"ratio": {"0.0": 2.0, "1.0": 2.0}},
            "R unsorted, counted": {"ratio": {"0.0": 0.5, "1.0": 0.5}},
            "R unsorted, measured": {"ratio": {"0.0": 4.0, "1.0": 4.0}},
        },
    }


def test_one_panel_is_not_named_in_what_is_said() -> None:
    found = only(judge(figure(), PAPER, rows({(SORTED, PRICED): 2})))
    assert found["said"] == "counted: 2.00 × meshjoin"
    assert only(judge(figure(), PAPER, []))["said"] == "there are no points to judge it by"


def test_a_figure_without_panels_is_judged_as_it_is() -> None:
    head = FIGURE.replace('[panels]\nfield = "order"\nvalues = ["by-frequency", "unsorted"]\n', "")
    made = rows({("", PRICED): 2, ("", MEASURED): 0.5})
    found = only(judge(figure(head=head), PAPER, made))
    assert (found["verdict"], found["condition"]) == ("with a condition", "only counted")
    assert set(found["numbers"]) == {"counted", "measured"}


def test_a_claim_on_one_panel_looks_at_no_other() -> None:
    made = rows({(SORTED, PRICED): 2, (UNSORTED, PRICED): 0.5})
    claim = figure(AHEAD + 'panels = ["by-frequency"]\n')
    assert only(judge(claim, PAPER, made))["verdict"] == "reproduced"
    claim = figure(AHEAD + 'panels = ["unsorted"]\n')
    assert only(judge(claim, PAPER, made))["verdict"] == "not reproduced"


def test_a_claim_names_the_quantity_of_either_clock_or_none() -> None:
    made = rows({(SORTED, "wait_rows_p50"): 2, (SORTED, PRICED): 0.5, (SORTED, MEASURED): 0.5})
    claim = figure(AHEAD + 'counted = "wait_rows_p50"\nmeasured = ""\n')
    assert only(judge(claim, PAPER, made))["said"] == "counted: 2.00 × meshjoin"
    claim = figure(AHEAD + 'counted = ""\n')
    assert only(judge(claim, PAPER, made))["said"] == "measured: no, 0.50 × meshjoin"


def test_a_figure_of_one_clock_is_judged_by_it_alone() -> None:
    made = rows({(SORTED, PRICED): 2, (SORTED, MEASURED): 0.5})
    head = 'clocks = ["counted"]\n' + FIGURE
    assert only(judge(figure(head=head), PAPER, made))["verdict"] == "reproduced"


def test_claims_are_numbered_in_their_order() -> None:
    other = AHEAD.replace("HYBRIDJOIN is ahead", "again")
    found = judge(figure(AHEAD + other), PAPER, rows({(SORTED, PRICED): 2}))
    assert [(v["id"], v["claim"]) for v in found] == [
        ("000-9.1", "HYBRIDJOIN is ahead"),
        ("000-9.2", "again"),
    ]


# -- sizes, at the scale that was run --------------------------------------------------------------

BY_BUDGET = """
paper = "hybridjoin"
[x]
field = "budget"
label = "budget"
values = ["20MB", "40MB"]
[[series]]
join = "hybridjoin"
[[series]]
join = "meshjoin"
[[claims]]
text = "a claim"
"""


def by_budget(scale: Scale, ours: tuple[float, float], theirs: tuple[float, float]) -> list[Row]:
    return [
        row(series, scale.down(budget), {PRICED: mean})
        for series, means in (("hybridjoin", ours), ("meshjoin", theirs))
        for budget, mean in zip((20_000_000, 40_000_000), means, strict=True)
    ]


@pytest.mark.parametrize("scale", [PAPER, SMALL])
@pytest.mark.parametrize("at", ['"40MB"', "40_000_000"])
def test_values_of_the_axis_are_those_of_the_scale(scale: Scale, at: str) -> None:
    options = f'check = "behind_at"\nseries = "hybridjoin"\nof = "meshjoin"\nat = {at}\n'
    made = by_budget(scale, (2, 1), (1, 2))
    assert only(judge(read("t", BY_BUDGET + options), scale, made))["verdict"] == "reproduced"
    options = options.replace("40", "20")
    assert only(judge(read("t", BY_BUDGET + options), scale, made))["verdict"] == "not reproduced"


@pytest.mark.parametrize("scale", [PAPER, SMALL])
def test_lists_of_such_values_too(scale: Scale) -> None:
    options = """
check = "losses_near"
series = "hybridjoin"
of = "meshjoin"
at = ["20MB", "40MB"]
wanted = [0.1, 0.2]
within = 0.001
"""
    made = by_budget(scale, (9, 8), (10, 10))
    found = only(judge(read("t", BY_BUDGET + options), scale, made))
    assert found["verdict"] == "reproduced"
    assert found["said"] == "counted: 10.00% for 10.00%, 20.00% for 20.00%"


@pytest.mark.parametrize("scale", [PAPER, SMALL])
def test_what_is_left_out_or_begins_at_a_size(scale: Scale) -> None:
    made = by_budget(scale, (1, 3), (2, 2))
    best = 'check = "best"\nseries = "hybridjoin"\namong = ["meshjoin"]\n'
    found = only(judge(read("t", BY_BUDGET + best), scale, made))
    assert found["verdict"] == "not reproduced"
    found = only(judge(read("t", BY_BUDGET + best + 'except_at = ["20MB"]\n'), scale, made))
    assert found["verdict"] == "reproduced"
    begins = best.replace('"best"', '"best_from"') + 'first = "40MB"\n'
    assert only(judge(read("t", BY_BUDGET + begins), scale, made))["verdict"] == "reproduced"


def test_a_skew_is_no_size() -> None:
    claim = AHEAD.replace('"ahead"', '"behind_at"') + "at = 1.0\n"
    made = rows({(SORTED, PRICED): 0.5})
    assert only(judge(figure(claim), SMALL, made))["verdict"] == "reproduced"


@pytest.mark.parametrize(("scale", "found"), [(PAPER, 2e6), (SMALL, 1e5)])
def test_numbers_that_are_found_are_brought_to_the_papers_scale(scale: Scale, found: float) -> None:
    options = """
check = "values_near"
series = "hybridjoin"
wanted = [2e6]
at = ["20MB"]
within = 0.01
unscale = true
counted = "best_disk_buffer"
"""
    made = [row("hybridjoin", scale.down(20_000_000), {"best_disk_buffer": found})]
    verdict = only(judge(read("t", BY_BUDGET + options), scale, made))
    assert verdict["verdict"] == "reproduced"
    assert verdict["numbers"]["counted"]["found"] == [2e6]


@pytest.mark.parametrize(("scale", "held"), [(PAPER, 50_000_000), (SMALL, 2_500_000)])
def test_a_limit_in_bytes_is_that_of_the_scale(scale: Scale, held: int) -> None:
    options = """
[[claims]]
text = "it holds no more than its budget"
check = "no_more_than"
series = "hybridjoin"
most = "50MB"
scaled = ["most"]
counted = "held_bytes_max"
"""
    for more, verdict in ((0, "reproduced"), (1000, "not reproduced")):
        made = [row("hybridjoin", 0.0, {"held_bytes_max": held + more}, SORTED)]
        assert only(judge(figure(options), scale, made))["verdict"] == verdict


@pytest.mark.parametrize(("scale", "rows_of_a_batch"), [(PAPER, 16_384), (SMALL, 512)])
def test_a_batch_is_that_of_the_run(scale: Scale, rows_of_a_batch: int) -> None:
    claim = """
[small]
batch_rows = 512
[[claims]]
text = "no row waits longer than max_wait and a batch"
check = "no_more_than_x"
series = "hybridjoin"
more = "batch"
counted = "wait_rows_max"
"""
    head = FIGURE.replace('"skew"', '"max_wait"').replace("[0.0, 1.0]", "[20_000]")
    for more, verdict in ((0, "reproduced"), (1, "not reproduced")):
        x = scale.down(20_000)
        made = [row("hybridjoin", x, {"wait_rows_max": x + rows_of_a_batch + more}, SORTED)]
        assert only(judge(figure(claim, head), scale, made))["verdict"] == verdict


def test_numbers_that_are_none_are_points_that_are_missing() -> None:
    made = rows({(SORTED, PRICED): 2})
    bad = next(r for r in made if r["series"] == "hybridjoin" and r["x"] == 1.0)
    bad["values"][PRICED]["mean"] = float("nan")
    found = only(judge(figure(), PAPER, made))
    assert (found["verdict"], found["condition"]) == (
        "with a condition",
        "no number of hybridjoin at 1 (counted)",
    )


def test_a_check_that_divides_by_nothing_judges_nothing() -> None:
    claim = """
[[claims]]
text = "it has one maximum"
check = "one_maximum"
series = "hybridjoin"
"""
    made = [row("hybridjoin", x, {PRICED: 0.0}, SORTED) for x in (0.0, 0.5, 1.0)]
    assert only(judge(figure(claim), PAPER, made))["verdict"] == "not judged"


def test_a_join_that_was_refused_is_not_the_best() -> None:
    claim = AHEAD.replace('"ahead"', '"best"').replace('of = "meshjoin"', 'among = ["meshjoin"]')
    made = rows({(SORTED, PRICED): 2})
    assert only(judge(figure(claim), PAPER, made))["verdict"] == "reproduced"
    refused = next(r for r in made if r["series"] == "hybridjoin" and r["x"] == 1.0)
    refused["values"] = {}
    found = only(judge(figure(claim), PAPER, made))
    assert (found["verdict"], found["condition"]) == (
        "with a condition",
        "no number of hybridjoin at 1 (counted)",
    )
    refused["refused"] = "the budget is too small"
    assert only(judge(figure(claim), PAPER, made))["verdict"] == "not reproduced"


def test_a_surface_keeps_both_its_axes() -> None:
    claim = '[[claims]]\ntext = "one"\ncheck = "one_summit"\nseries = "hybridjoin"\n'
    made = [
        row("hybridjoin", x, {PRICED: 9 - (x - 1) ** 2 - (y - 1) ** 2}, SORTED, y=y)
        for x in (0, 1, 2)
        for y in (0, 1, 2)
    ]
    found = only(judge(figure(claim), PAPER, made))
    assert found["verdict"] == "reproduced"
    assert found["numbers"]["R sorted by frequency, counted"]["best_at"] == [1, 1]


def test_why_there_is_nothing_to_judge_is_said() -> None:
    options = 'check = "loses_little"\nseries = "hybridjoin"\nof = "meshjoin"\nat_most = 0.5\n'
    made = by_budget(SMALL, (2, 1), (1, 1))
    found = only(judge(read("t", BY_BUDGET + options), SMALL, made))
    assert (found["verdict"], found["numbers"]) == ("not judged", {})
    assert (
        found["said"] == "hybridjoin is nowhere behind meshjoin, so that there is no loss to judge"
    )
    found = only(judge(read("t", BY_BUDGET + options), SMALL, []))
    assert found["said"] == "there are no points to judge it by"
