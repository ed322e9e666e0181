from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import MissingPackageError, OptionError
from penstock.experiments.intervals import single
from penstock.experiments.report.plot_axes import number_labels, round_ticks, value_axis
from penstock.experiments.report.plots import fitted, plot_spec, write_png
from penstock.experiments.report.series_look import dark_colours, looks
from penstock.joins.names import NAMES

vl_convert = pytest.importorskip("vl_convert")

Result = dict[str, Any]
KINDS = ["rates", "queues", "surface", "categories", "categories-log", "curves"]


def first(result: Result) -> str:
    return str(result["quantities"][0]["name"])


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    return int(width), int(height)


def drawn(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return list(spec["data"]["values"])


def layers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return list(spec.get("spec", spec)["layer"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [320, 800, 1200])
def test_every_kind_compiles(made_up: dict[str, Result], kind: str, width: int) -> None:
    for quantity in made_up[kind]["quantities"]:
        spec = plot_spec(made_up[kind], quantity["name"], width=width)
        assert vl_convert.vegalite_to_vega(spec)["marks"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_every_kind_about_as_wide_as_asked_for(
    made_up: dict[str, Result], kind: str, tmp_path: Path
) -> None:
    target = tmp_path / "of" / "figure.png"
    write_png(made_up[kind], first(made_up[kind]), target, width=800, scale=2)
    width, height = size_of(target.read_bytes())
    assert 1500 <= width <= 1700
    assert 500 <= height <= 1200
    assert target.stat().st_size > 10_000


def test_a_title_makes_it_higher(made_up: dict[str, Result], tmp_path: Path) -> None:
    result, heights = made_up["queues"], []
    for title in (None, "Another", ""):
        write_png(result, first(result), tmp_path / "p.png", title=title, scale=1)
        heights.append(size_of((tmp_path / "p.png").read_bytes())[1])
    assert heights[0] == heights[1] > heights[2]


def test_our_join_lies_above_the_others_and_the_bound_on_it(made_up: dict[str, Result]) -> None:
    spec = plot_spec(made_up["rates"], "stream_rows_per_read")
    order = list(dict.fromkeys(row["series"] for row in drawn(spec)))
    assert order[-2:] == ["ROOTJOIN", "read bound"]
    legend = spec["spec"]["encoding"]["color"]["scale"]["domain"]
    assert legend == [series["label"] for series in made_up["rates"]["series"]]


def test_only_series_with_numbers_are_in_the_legend(made_up: dict[str, Result]) -> None:
    spec = plot_spec(made_up["rates"], "rows_per_second")
    assert "read bound" not in spec["spec"]["encoding"]["color"]["scale"]["domain"]


def test_panels_are_chosen_by_name(made_up: dict[str, Result]) -> None:
    spec = plot_spec(made_up["rates"], "rows_per_second", ["order=unsorted"])
    assert {row["panel"] for row in drawn(spec)} == {"R unsorted"}
    assert spec["columns"] == 1


def test_panels_go_below_each_other_where_it_is_narrow(made_up: dict[str, Result]) -> None:
    spec = plot_spec(made_up["rates"], "rows_per_second")
    assert spec["columns"] == 2
    assert fitted(spec, 340)["columns"] == 1
    assert fitted(spec, 340)["spec"]["width"] == 260


@pytest.mark.parametrize(
    ("quantity", "panels", "said"),
    [
        ("rows_per_secnd", None, "Did you mean 'rows_per_second'"),
        ("rows_per_second", ["order=unsortd"], "has no panel 'order=unsortd'"),
    ],
)
def test_names_that_are_not_there(
    made_up: dict[str, Result], quantity: str, panels: list[str] | None, said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        plot_spec(made_up["rates"], quantity, panels)


def test_a_quantity_without_numbers(made_up: dict[str, Result]) -> None:
    result = {**made_up["queues"], "rows": []}
    with pytest.raises(OptionError, match="figure 002-3a has no number"):
        plot_spec(result, "stream_rows_per_read")


def test_numbers_that_are_none_are_left_out(made_up: dict[str, Result]) -> None:
    result = made_up["queues"]
    result["rows"][0]["values"]["stream_rows_per_read"]["mean"] = None
    result["rows"][1]["values"]["stream_rows_per_read"]["mean"] = float("nan")
    result["rows"][2]["values"]["stream_rows_per_read"]["high"] = float("inf")
    spec = plot_spec(result, "stream_rows_per_read")
    assert len(drawn(spec)) == len(result["rows"]) - 2
    assert any(row["high"] is None for row in drawn(spec))


def test_the_highest_cell_of_each_surface_is_marked(made_up: dict[str, Result]) -> None:
    spec = plot_spec(made_up["surface"], "stream_rows_per_read")
    best = {row["panel"]: (row["x"], row["y"]) for row in drawn(spec) if row["best"]}
    assert best == {"R sorted by frequency": (0.5, 10.0), "R unsorted": (0.5, 5.0)}
    assert [layer["mark"]["type"] for layer in layers(spec)] == ["rect", "point"]


def test_of_waits_the_lowest_cell_is_marked(made_up: dict[str, Result]) -> None:
    result = made_up["surface"]
    rename = "stream_rows_per_read", "wait_rows_p99"
    for row in result["rows"]:
        row["values"][rename[1]] = row["values"].pop(rename[0])
    result["quantities"][0]["name"] = rename[1]
    spec = plot_spec(result, rename[1])
    for panel in {row["panel"] for row in drawn(spec)}:
        of_panel = [row for row in drawn(spec) if row["panel"] == panel]
        (best,) = (row for row in of_panel if row["best"])
        assert best["mean"] == min(row["mean"] for row in of_panel)
    colour = layers(spec)[0]["encoding"]["color"]
    assert colour["scale"]["reverse"]
    assert "the lowest" in colour["legend"]["title"]


def test_a_surface_whose_rows_have_no_second_size_is_lines(made_up: dict[str, Result]) -> None:
    result = made_up["queues"]
    result["y"] = {"field": "buffer", "label": "disk buffer (bytes)", "log": False}
    assert layers(plot_spec(result, first(result)))[0]["mark"]["type"] == "line"


def test_rows_without_a_second_size_are_no_cells_and_sizes_may_be_texts(
    made_up: dict[str, Result],
) -> None:
    result = made_up["surface"]
    result["rows"][0]["y"] = None
    for row in result["rows"]:
        row["x"] = f"{row['x']} MB"
    spec = plot_spec(result, first(result))
    assert len(drawn(spec)) == len(result["rows"]) - 1
    assert "labelExpr" not in spec["spec"]["encoding"]["x"]["axis"]
    assert vl_convert.vegalite_to_vega(spec)["marks"]


def test_bytes_are_written_in_powers_of_1024(made_up: dict[str, Result]) -> None:
    axis = plot_spec(made_up["queues"], "stream_rows_per_read")["encoding"]["x"]["axis"]
    assert axis["title"] == "budget (MiB)"
    assert "1048576" in axis["labelExpr"]
    assert number_labels("read (bytes)", [4096, 1 << 24])["title"] == "read (KiB)"
    assert number_labels("read (bytes)", [0, 12])["title"] == "read (bytes)"


def test_surfaces_of_several_series_are_panels(made_up: dict[str, Result]) -> None:
    result = made_up["surface"]
    result["series"].append({"name": "model", "label": "model"})
    result["rows"] += [{**row, "series": "model"} for row in result["rows"]]
    spec = plot_spec(result, "stream_rows_per_read")
    assert {row["panel"] for row in drawn(spec)} == {
        f"{series} · {panel}"
        for series in ("Tuned X-HYBRIDJOIN", "model")
        for panel in ("R sorted by frequency", "R unsorted")
    }
    assert spec["columns"] == 2


def test_what_is_the_same_for_all_cells_stands_under_the_panels_name(
    made_up: dict[str, Result],
) -> None:
    result = made_up["surface"]
    result["series"].append({"name": "rootjoin", "label": "ROOTJOIN", "flat": True})
    result["rows"] += [
        {**row, "series": "rootjoin", "values": {"stream_rows_per_read": single(1_234_567.0)}}
        for row in result["rows"]
    ]
    cells = [(row["x"], row["y"]) for row in drawn(plot_spec(result, "stream_rows_per_read"))]
    spec = plot_spec(result, "stream_rows_per_read")
    assert {row["panel"] for row in drawn(spec)} == {
        "R sorted by frequency\nROOTJOIN: 1.235 M",
        "R unsorted\nROOTJOIN: 1.235 M",
    }
    assert len(cells) == len(result["rows"]) / 2
    assert spec["facet"]["header"]["labelExpr"] == r"split(datum.label, '\n')"
    assert vl_convert.vegalite_to_svg(spec).count(">ROOTJOIN: 1.235 M<") == 2


def test_marks_of_lines_of_bars_and_of_many_points(made_up: dict[str, Result]) -> None:
    def marks(kind: str) -> list[str]:
        spec = plot_spec(made_up[kind], first(made_up[kind]))
        return [layer["mark"]["type"] for layer in layers(spec)]

    assert marks("rates") == ["line", "rule", "point", "point"]
    assert marks("curves") == ["line", "area", "point"]
    assert marks("categories") == ["bar", "rule", "tick"]


def test_bars_on_an_axis_of_factors_start_at_its_end(made_up: dict[str, Result]) -> None:
    bars = layers(plot_spec(made_up["categories-log"], "stream_rows_per_read"))[0]["encoding"]
    low, high = bars["y"]["scale"]["domain"]
    assert 0 < low < 10
    assert high > 180
    assert bars["y2"] == {"datum": low}


def test_a_zero_on_an_axis_of_factors() -> None:
    axis = value_axis("waits", [0.0, 3.0, 900.0], log=True)
    assert axis["scale"] == {"type": "symlog", "constant": 3.0, "zero": True, "nice": False}
    assert axis["axis"]["values"][0] == 0.0
    assert value_axis("waits", [0.0, 5.0], log=True)["axis"]["values"] == [0.0, 5.0]
    assert value_axis("waits", [0.0], log=True)["scale"]["zero"] is True


@pytest.mark.parametrize(("low", "high"), [(3, 4), (0.9, 1.1), (1, 1e3), (1e-9, 1e12), (5, 5e4)])
def test_ticks_are_few_and_within(low: float, high: float) -> None:
    ticks = round_ticks(low, high)
    assert 2 <= len(ticks) <= 9
    assert ticks == sorted(ticks)


def test_labels_that_are_the_same_are_told_apart_by_name(made_up: dict[str, Result]) -> None:
    result = made_up["queues"]
    for series in result["series"][:2]:
        series["label"] = "HYBRIDJOIN"
    spec = plot_spec(result, "stream_rows_per_read")
    domain = spec["encoding"]["color"]["scale"]["domain"]
    assert domain[:2] == ["HYBRIDJOIN (hybridjoin-l)", "HYBRIDJOIN (hybridjoin-pq)"]


def test_every_join_has_a_look_of_its_own_the_same_in_every_figure() -> None:
    together = looks([*NAMES, "read-bound", "spark", "lookups", "in-memory"])
    assert len(set(together.values())) == len(together)
    assert all(looks([name])[name] == together[name] for name in NAMES)
    assert together["rootjoin"].width == max(look.width for look in together.values())
    assert all(look.light in dark_colours() for look in together.values())


def test_unknown_series_and_several_bounds_differ() -> None:
    names = [f"choice {number}" for number in range(6)]
    names += ["read-bound", "window-bound", "measured", "model", "hybridjoin", "hybridjoin-model"]
    assert len(set(looks(names).values())) == len(names)


def test_without_the_package_it_is_told_what_to_install(
    made_up: dict[str, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'penstock\[experiments\]'"):
        write_png(made_up["rates"], "rows_per_second", tmp_path / "p.png")
