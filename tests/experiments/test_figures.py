"""Figures' files: those that are there are whole, and what is wrong with one is told in words."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest

from penstock.experiments.case import Case, ExperimentError
from penstock.experiments.figure import Figure, find, known_ids, read, select, sized
from penstock.experiments.job import CLOCKS
from penstock.experiments.kinds import KINDS, kind_of
from penstock.experiments.kinds.grid import QUANTITIES, SCALED_FIELDS, points
from penstock.experiments.models import MODELS
from penstock.experiments.papers import PAPERS
from penstock.experiments.quantities import KNOWN, words_of
from penstock.experiments.scale import SCALES
from penstock.experiments.shapes import CHECKS, check_named

PAPERS_FIGURES = {
    "000": ("3", "5a", "5b", "6a", "6b"),
    "001": ("5", "6", "7", "8", "9", "10a", "10b"),
    "002": ("2", "3a", "3b", "3c", "3d", "3e"),
    "003": ("4", "5a", "5b", "6a", "6b", "7"),
    "004": ("3", "6", "7a", "7b", "7c", "7d", "7e", "8a", "8b", "8c", "10", "11", "T1", "T2"),
    "ours": ("size", "skew", "drift", "missing", "rivals", "spark", "wait", "200m"),
}
FURTHER = {"004-T2b"}
BEGINNINGS = {
    "000": "tuned-x-hybridjoin",
    "001": "meshjoin-defaults",
    "002": "frequent-pages",
    "003": "optimised-x-hybridjoin",
    "004": "hybridjoin",
    "ours": "penstock",
}
OF_KIND = {
    "optima": {"best", "default"},
    "skew-of-stream": {"exact", "integral"},
    "bursts-of-stream": {"own switches", "one switch", "independent"},
    "theorems": {"saturated", "not saturated", "hybridjoin"},
}
"""Series that a kind makes itself."""
JUDGED_ONLY = {"counted", "measured", "panels", "scaled", "unscale"}
NO_BOUND = {
    "001-6": "it shows the best buffers",
    "004-7a": "it shows times",
    "004-7b": "it shows times; its rates are given",
    "ours-spark": "whole micro-batches, most of them Spark's",
}
NO_ROOTJOIN = {"001-6": "it shows MESHJOIN's best buffers"}
ONE_ORDER = {"ours-spark": "what Spark does takes the same time in either"}
NO_WAIT = {"001-6": "it shows the best buffers"}

FIGURES = {name: find(name) for name in known_ids()}


def each(*kinds: str) -> Iterator[Figure]:
    return (figure for figure in FIGURES.values() if not kinds or figure.kind in kinds)


def of_rates() -> Iterator[Figure]:
    """Figures of joins at work."""
    yield from each("joins", "optima", "arrivals", "spark")


def names_in(figure: Figure) -> set[str]:
    return OF_KIND.get(figure.kind, {series.name for series in figure.series})


def test_there_is_a_file_for_each_figure_of_the_papers() -> None:
    wanted = {f"{paper}-{name}" for paper, names in PAPERS_FIGURES.items() for name in names}
    assert wanted | FURTHER == set(FIGURES)


def test_the_papers_come_in_their_order_and_ours_last() -> None:
    beginnings = [name.split("-")[0] for name in known_ids()]
    assert beginnings == sorted(beginnings)
    assert beginnings[-1] == "ours"


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_of_its_paper(name: str) -> None:
    figure = FIGURES[name]
    assert figure.id == name
    assert figure.paper == BEGINNINGS[name.split("-")[0]]
    assert figure.paper in PAPERS
    assert figure.title
    assert bool(figure.figure) == (figure.paper != "penstock")


@pytest.mark.parametrize("name", FIGURES)
def test_its_kind_makes_jobs_for_it_at_every_scale(name: str) -> None:
    figure = FIGURES[name]
    assert set(figure.clocks) <= set(CLOCKS)
    for scale in SCALES.values():
        for clock in figure.clocks:
            some = kind_of(figure).jobs(figure, scale, [clock], thin=True)
            every = kind_of(figure).jobs(figure, scale, [clock])
            assert some
            assert {job.key for job in every}
            assert len(some) <= len(every)
    assert not kind_of(figure).jobs(figure, SCALES["small"], [])


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_claims_and_each_has_a_check_that_takes_its_options(name: str) -> None:
    figure = FIGURES[name]
    assert figure.claims
    for claim in figure.claims:
        options = {n: v for n, v in claim.options.items() if n not in JUDGED_ONLY}
        if claim.options.get("unscale"):
            options["scaled_by"] = 1.0
        signature(check_named(claim.check)).bind(None, **options)
    texts = [claim.text for claim in figure.claims]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", FIGURES)
def test_a_claim_is_on_series_panels_and_quantities_that_are_there(name: str) -> None:
    figure = FIGURES[name]
    there = names_in(figure)
    panels = {value for _, value, _ in figure.panels}
    for claim in figure.claims:
        named = set[str]()
        for option in ("series", "of", "among", "than", "others", "model", "to"):
            if option == "to" and claim.check == "moves":
                continue
            value = claim.options.get(option, [])
            named |= {value} if isinstance(value, str) else set(value)
        assert named
        assert named <= there, claim.text
        assert set(claim.options.get("panels", panels)) <= panels
        for clock in CLOCKS:
            quantity = claim.options.get(clock)
            if quantity:
                assert words_of(quantity, figure.kind)[1] == clock, quantity
                assert quantity in KNOWN
        silent = [clock for clock in figure.clocks if claim.options.get(clock) == ""]
        assert len(silent) < len(figure.clocks)


@pytest.mark.parametrize("name", [figure.id for figure in each("joins", "optima")])
def test_values_of_an_axis_ascend(name: str) -> None:
    figure = FIGURES[name]
    for axis in (figure.x, figure.y):
        if axis is None:
            continue
        assert axis.values
        for values in (axis.values, axis.small_values, axis.thin_values):
            assert list(values) == sorted(set(values))
        for scale in SCALES:
            assert len(axis.at(scale, thin=True)) <= len(axis.at(scale, thin=False))


@pytest.mark.parametrize("name", [figure.id for figure in each("joins", "optima")])
def test_values_of_the_axis_that_a_claim_names_are_run(name: str) -> None:
    figure = FIGURES[name]
    assert figure.x is not None
    for claim in figure.claims:
        if claim.check == "maximum_near":
            continue
        wanted = claim.options.get("at", [])
        wanted = wanted if isinstance(wanted, list) else [wanted]
        for value in [*wanted, *claim.options.get("except_at", [])]:
            for scale in SCALES:
                assert sized("budget", value) in figure.x.at(scale, thin=False), claim.text


@pytest.mark.parametrize("name", [figure.id for figure in of_rates()])
def test_rootjoin_and_the_read_bound_are_drawn_beside_rates_in_both_orders_of_r(name: str) -> None:
    figure = FIGURES[name]
    if figure.kind != "spark" and name not in NO_ROOTJOIN:
        assert "rootjoin" in {series.join for series in figure.series}
    if name not in NO_BOUND:
        bounds = {s.of for s in figure.series if s.derived == "bound"}
        assert figure.series_named("rootjoin").name in bounds
    orders = {value for field, value, _ in figure.panels if field == "order"}
    assert (orders == {"by-frequency", "unsorted"}) != (name in ONE_ORDER)


@pytest.mark.parametrize("name", [figure.id for figure in of_rates()])
def test_the_wait_of_a_row_is_drawn_beside_rates(name: str) -> None:
    shown = FIGURES[name].quantities or QUANTITIES
    assert any(quantity.startswith("wait_") for quantity in shown) != (name in NO_WAIT)


def test_what_is_excused_is_there() -> None:
    excused = {*NO_BOUND, *ONE_ORDER, *NO_WAIT, *NO_ROOTJOIN}
    assert excused <= {figure.id for figure in of_rates()}


@pytest.mark.parametrize("name", [figure.id for figure in each("joins")])
def test_derived_lines_have_runs_to_be_derived_from(name: str) -> None:
    figure = FIGURES[name]
    runs = {series.name for series in figure.series if series.derived is None}
    for series in figure.series:
        assert (series.of is None) == (series.derived is None)
        assert series.derived is None or series.of in runs
        if series.derived in MODELS:
            assert not any(claim.options.get("to") == series.name for claim in figure.claims)


@pytest.mark.parametrize("name", [figure.id for figure in each("joins", "optima")])
def test_small_scale_keeps_proportions_but_where_the_file_says_otherwise(name: str) -> None:
    figure, small = FIGURES[name], SCALES["small"]
    for point in points(figure, small, figure.clocks):
        case = point.case
        own = {**figure.case, **figure.small, **point.series.case, **point.series.small_case}
        if figure.x is not None and figure.x.field in SCALED_FIELDS:
            field = figure.x.field
            option = dict(case.options).get(field.removeprefix("options."))
            assert point.x == getattr(case, field, option) or point.series.flat
        rows = own.get("rows", Case.rows)
        if "rows" in figure.small:
            assert case.rows == figure.small["rows"]
        elif figure.x is None or figure.x.field != "rows":
            assert case.rows == rows // 20
        assert case.batch_rows == own.get("batch_rows", small.batch_rows)


def test_every_check_is_used_by_a_figure() -> None:
    used = {claim.check for figure in each() for claim in figure.claims}
    assert set(CHECKS) - used == set()


def test_every_check_is_documented_with_its_options() -> None:
    lines = (Path(__file__).parents[2] / "docs/reproduce.md").read_text("utf-8").splitlines()
    for name, check in CHECKS.items():
        (line,) = (line for line in lines if line.startswith(f"| `{name}` |"))
        options = [option for option in signature(check).parameters if option != "lines"]
        assert all(f"`{option}`" in line for option in options)


def test_every_kind_has_a_figure() -> None:
    assert {figure.kind for figure in each()} == set(KINDS)


@pytest.mark.parametrize("name", ["001-10a", "001-10b", "004-8b", "004-8c"])
def test_an_identity_is_not_judged_by_counts(name: str) -> None:
    """MESHJOIN's window is what a step admits by the steps of a round, INLJ's reads are its rows.

    Neither's equation can fail, but by the clock.
    """
    judged = {claim.options.get("model"): claim.options for claim in FIGURES[name].claims}
    assert judged["published"]["counted"] == ""
    assert "counted" not in judged.get("printed", {})


def test_both_models_are_judged_where_a_paper_prints_one_and_it_has_slips() -> None:
    for name in ("000-5a", "000-5b", "003-5a", "003-5b", "003-7", "004-8a"):
        judged = {claim.options.get("model") for claim in FIGURES[name].claims}
        assert judged == {"published", "corrected", "ours"}


# -- files that are wrong --------------------------------------------------------------------------

GOOD = """
paper = "penstock"
[case]
rows = 1000
[x]
field = "skew"
values = [0.5, 1.0]
[panels]
field = "order"
values = ["unsorted"]
[[series]]
join = "rootjoin"
[[series]]
join = "hybridjoin"
[[claims]]
text = "it is ahead"
check = "ahead"
series = "rootjoin"
of = "hybridjoin"
"""


def test_a_good_file_is_read() -> None:
    figure = read("mine", GOOD)
    assert (figure.id, figure.kind, figure.clocks) == ("mine", "joins", CLOCKS)
    assert figure.panels == (("order", "unsorted", "R unsorted"),)
    assert [series.name for series in figure.series] == ["rootjoin", "hybridjoin"]
    assert figure.series_named("hybridjoin").join == "hybridjoin"
    with pytest.raises(ExperimentError, match="mine: no series is named 'meshjoin'"):
        figure.series_named("meshjoin")


@pytest.mark.parametrize(
    ("change", "to", "told"),
    [
        ('paper = "penstock"', 'paper = "penstok"', "'penstok' is no paper; they are "),
        ('paper = "penstock"', "", "None is no paper"),
        ('paper = "penstock"', 'paper = "penstock"\ncolour = "red"', "the file has colour, which"),
        ('paper = "penstock"', 'paper = "penstock"\nclocks = ["priced"]', "'priced' is no clock"),
        ("rows = 1000", "rowes = 1000", "'rowes' is no field of the case; they are batch_rows, "),
        ("rows = 1000", 'join = "inlj"', "'join' is no field of the case"),
        ("rows = 1000", 'budget = "lots"', "lots"),
        ("rows = 1000", 'rows = "many"', "rows is a whole number, 1 or more, not 'many'"),
        ("rows = 1000", "windows = [1, true]", r"windows are two numbers, .*, not \[1, True\]"),
        ("rows = 1000", 'order = "sorted"', "'sorted' is no order; they are by-frequency, unsort"),
        ('values = ["unsorted"]', 'values = ["sorted"]', "'sorted' is no order"),
        ("values = [0.5, 1.0]", 'values = [0.5, "x"]', "skew is a number from 0 to 2, not 'x'"),
        ("values = [0.5, 1.0]", "values = 0.5", r"values are a list, \[...\], not 0.5"),
        ('series = "rootjoin"', 'series = "rotjoin"', "'rotjoin' is no series of this figure"),
        ('of = "hybridjoin"', 'of = "meshjoin"', "'meshjoin' is no series of this figure"),
        ("rows = 1000", 'budget = ""', "budget|size|bytes"),
        ("rows = 1000", "rows = 0", "rows is a whole number, 1 or more, not 0"),
        ("rows = 1000", "max_wait = -3", "max_wait is a whole number, 1 or more, not -3"),
        ("rows = 1000", "budget = inf", "budget is a whole number, 1 or more, not inf"),
        ("rows = 1000", "skew = nan", "skew is a number from 0 to 2, not nan"),
        ("rows = 1000", "missing = 1", "missing is a number from 0 to less than 1, not 1"),
        ("rows = 1000", 'predict = "no"', "predict is true or false, not 'no'"),
        ("values = [0.5, 1.0]", "values = [0.5, 0.5]", "has a value twice"),
        ("values = [0.5, 1.0]", "values = []", "an axis has a field and values"),
        ('values = ["unsorted"]', 'values = ["unsorted", "unsorted"]', "two panels have order"),
        ('join = "rootjoin"', 'name = "rootjoin"', "the series 'rootjoin' has no join"),
        (
            'join = "rootjoin"',
            'join = "rootjoin"\n[series.options]\nfoo = 1',
            "rootjoin has no option 'foo'; its options are pack",
        ),
        (
            'join = "rootjoin"',
            'join = "rootjoin"\n[series.options]\nbudget = 1',
            "budget is a field of the case",
        ),
        ('of = "hybridjoin"', 'of = "hybridjoin"\nby = "1.1"', "by of ahead is a number"),
        ('of = "hybridjoin"', 'of = "hybridjoin"\ncounted = 3', "counted of ahead is a name"),
        (
            'of = "hybridjoin"',
            'of = "hybridjoin"\npanels = "unsorted"',
            "panels of ahead is a list of values",
        ),
        ('of = "hybridjoin"', 'of = "hybridjoin"\nscaled = ["z"]', "ahead has no 'z'"),
        ('of = "hybridjoin"', 'of = "hybridjoin"\nunscale = true', "cannot be unscaled"),
        ('of = "hybridjoin"', 'of = ["hybridjoin"]', "of of ahead is a name"),
        (
            'check = "ahead"\nseries = "rootjoin"\nof = "hybridjoin"',
            'check = "values_near"\nseries = "rootjoin"\nwanted = []\nwithin = 0.1',
            "wanted of values_near is a list of values",
        ),
        (
            'check = "ahead"\nseries = "rootjoin"\nof = "hybridjoin"',
            'check = "moves"\nseries = ["rootjoin", "hybridjoin"]\nto = "up"',
            "to of moves is 'lower' or 'upper', not 'up'",
        ),
        (
            'check = "ahead"\nseries = "rootjoin"\nof = "hybridjoin"',
            'check = "best"\nseries = "rootjoin"\namong = "hybridjoin"',
            "among of best is a list of names",
        ),
        (
            'check = "ahead"\nseries = "rootjoin"\nof = "hybridjoin"',
            'check = "falls_at_first"\nseries = "rootjoin"\npoints = 1',
            "points of falls_at_first is a whole number, 2 or more",
        ),
        ("[case]\nrows = 1000", "case = 3", r"case is a table, \[case\], not 3"),
        ('field = "skew"', 'field = "skewness"', "'skewness' is no field of the case"),
        ('field = "skew"', 'field = "skew"\ncolour = 1', "an axis has colour, which is unknown"),
        ('field = "order"', 'field = "ordre"', "'ordre' is no field of the case"),
        ('values = ["unsorted"]', "values = []\nrows = 2", "the panels has rows|panels have rows"),
        ('join = "rootjoin"', 'join = "rotjoin"', "'rotjoin' is no join; they are .*rootjoin"),
        ('join = "rootjoin"', 'join = "rootjoin"\ncolour = 1', "the series 'rootjoin' has colour"),
        ('join = "rootjoin"', 'join = "rootjoin"\ncase = 1', r"case is a table, \[case\], not 1"),
        ('join = "rootjoin"', 'join = "hybridjoin"', "two series are named 'hybridjoin'"),
        ('join = "rootjoin"', "flat = true", "two series are named ''"),
        ('join = "rootjoin"', 'name = "b"\nof = "rootjoin"', "None is no way to derive a series"),
        (
            'join = "hybridjoin"',
            'name = "b"\nof = "rotjoin"\nderived = "bound"',
            "'rotjoin' is no series before the one that is derived from it; they are rootjoin",
        ),
        (
            'join = "hybridjoin"',
            'name = "b"\nof = "rootjoin"\nderived = "bond"',
            "'bond' is no way to derive a series; they are bound, corrected, ours, printed",
        ),
        ('text = "it is ahead"', "", "a claim has a text and a check"),
        ('check = "ahead"', "", "a claim has a text and a check"),
        ('check = "ahead"', 'check = "abreast"', "'abreast' is no check; they are ahead, "),
        ('check = "ahead"', 'check = "ahead"\nnear = 1', "'near' is no option of ahead; they are"),
        ('check = "ahead"', 'check = "ahead"\nlines = 1', "'lines' is no option of ahead"),
        ('of = "hybridjoin"', "", "ahead needs of .“it is ahead”."),
        ('of = "hybridjoin"', 'of = "hybridjoin"\npanels = ["sorted"]', "'sorted' is no panel"),
        ("[[claims]]", "[claims]", r"claims are tables, each headed \[\[claims\]\]"),
        ("[[claims]]", "[[claims", "mine: not TOML: .*line"),
    ],
)
def test_what_is_wrong_is_told_in_words_and_at_once(change: str, to: str, told: str) -> None:
    assert GOOD.count(change) == 1
    with pytest.raises((ExperimentError, ValueError), match=told):
        read("mine", GOOD.replace(change, to))


def test_a_series_may_be_derived_only_from_one_before_it() -> None:
    bound = '[[series]]\nname = "b"\nof = "hybridjoin"\nderived = "bound"\n'
    assert read("mine", GOOD + bound).series_named("b").of == "hybridjoin"
    with pytest.raises(ExperimentError, match="'hybridjoin' is no series before"):
        read("mine", GOOD.replace("[[series]]\n", bound + "[[series]]\n", 1))


def test_an_unknown_kind_is_told() -> None:
    with pytest.raises(ExperimentError, match="'jions' is no kind of figure; they are joins, "):
        kind_of(read("mine", 'kind = "jions"\n' + GOOD))


def test_a_figure_without_an_x_axis_is_refused() -> None:
    axis = '[x]\nfield = "skew"\nvalues = [0.5, 1.0]\n'
    assert axis in GOOD
    with pytest.raises(ExperimentError, match="mine: it has no x axis"):
        read("mine", GOOD.replace(axis, ""))


def test_a_file_with_the_id_of_a_papers_figure_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "000-6a.toml"
    path.write_text(GOOD)
    with pytest.raises(ExperimentError, match="has the id of a figure that comes with penstock"):
        select([str(path)])


def test_one_file_by_two_names_is_one_figure(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    (tmp_path / "there").mkdir()
    assert len(select([str(path), str(tmp_path / "there" / ".." / "mine.toml")])) == 1


def test_sizes_are_written_as_text_and_a_disk_buffer_may_tune_itself() -> None:
    text = GOOD.replace("rows = 1000", 'budget = "2MB"\npage_bytes = "8KiB"')
    text = text.replace(
        'join = "hybridjoin"',
        'name = "hybridjoin"\njoin = "meshjoin"\n[series.options]\ndisk_buffer = "tuned"',
    )
    figure = read("mine", text.replace("[0.5, 1.0]", '["1MB", "10MB"]').replace("skew", "budget"))
    assert figure.case == {"budget": 2_000_000, "page_bytes": 8192}
    assert figure.x is not None
    assert figure.x.values == (1_000_000, 10_000_000)
    assert figure.series[1].options == {"disk_buffer": "tuned"}


# -- which figures are asked for -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["000-6a"], ["000-6a"]),
        (["000-6"], ["000-6a", "000-6b"]),
        (["000"], ["000-3", "000-5a", "000-5b", "000-6a", "000-6b"]),
        (["004-T2"], ["004-T2"]),  # an id, although another begins with it
        (["000-6b", "000"], ["000-6b", "000-3", "000-5a", "000-5b", "000-6a"]),
        (["ours-s"], ["ours-size", "ours-skew", "ours-spark"]),
    ],
)
def test_a_beginning_stands_for_all_that_begin_so(wanted: list[str], found: list[str]) -> None:
    assert [figure.id for figure in select(wanted)] == found


def test_all_is_every_figure_and_so_is_nothing() -> None:
    assert [figure.id for figure in select(["all"])] == known_ids()
    assert [figure.id for figure in select([])] == known_ids()


def test_a_file_is_found_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert [figure.id for figure in select([str(path), "004-T2"])] == ["mine", "004-T2"]
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(
        ExperimentError, match=r"cannot read .*mine.toml'?: it, or its name, is not text"
    ):
        select([str(path)])
    with pytest.raises(ExperimentError, match=r"cannot read .*other.toml: No such file"):
        select([str(tmp_path / "other.toml")])


@pytest.mark.parametrize("wanted", ["000-6aa", "00-6a", "all-of-it", "", "000-6a.toml.x"])
def test_a_typo_is_told_with_what_may_have_been_meant(wanted: str) -> None:
    with pytest.raises(ExperimentError, match="no figure has the id") as told:
        select([wanted])
    assert "--list" in str(told.value)
    if "6a" in wanted:
        assert "Did you mean " in str(told.value)
        assert "'000-6a'" in str(told.value)
