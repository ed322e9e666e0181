"""`penstock calibrate`: what it prints, keeps and draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands import app
from penstock.costs.calibration import kept_calibration
from penstock.costs.unit_costs import CostError, UnitCosts
from penstock.errors import OptionError
from penstock.masters import PageFileMaster, build_master
from penstock.streams import SalesStream

pytestmark = pytest.mark.usefixtures("short_calibration")
SALES = SalesStream(products=20_000)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("r") / "r.arrow"
    build_master(SALES.master_table(), path, "product_id", page_bytes=8192)
    return path


def run(*arguments: Any) -> Result:
    words = [str(a) for a in arguments]
    return CliRunner().invoke(app, words, env={"COLUMNS": "120"})


def test_as_json_and_kept_for_plan(master: Path, tmp_path: Path) -> None:
    before = run("plan", master, "--budget", "600kB", "--join", "inlj", "--output", "json")
    assert "calibrate to have yours" in json.loads(before.stdout)["costs"]
    result = run("calibrate", master, "--output", "json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    known = json.loads(result.stdout)
    kept = Path(known.pop("kept_in"))
    assert kept.is_relative_to(tmp_path / "cache")
    costs = UnitCosts.from_dict(known)
    with PageFileMaster(master) as opened:
        assert kept_calibration(opened) == costs
    after = run("plan", master, "--budget", "600kB", "--join", "inlj", "--output", "json")
    assert json.loads(after.stdout)["costs"] == costs.source


def test_as_text_with_a_sample_and_a_plot(master: Path, tmp_path: Path) -> None:
    sample, plot = tmp_path / "sample.parquet", tmp_path / "reads.svg"
    pq.write_table(pa.Table.from_batches([SALES.rows(0, 100)]), sample)
    result = run(
        *("calibrate", master, "--stream", sample, "--columns", "price,stock", "--plot", plot)
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "alone" in result.stdout
    assert "16 at once" in result.stdout
    assert "put it into the window" in result.stdout
    assert f"Kept in {tmp_path / 'cache'}" in result.stdout
    assert "…" not in result.stdout
    with PageFileMaster(master) as opened:
        costs = kept_calibration(opened, SALES.schema, ["price", "stock"])
        assert costs is not None
        assert kept_calibration(opened) is None
    drawing = ET.parse(plot).getroot()
    assert drawing.tag == f"{SVG}svg"
    lines = drawing.findall(f"{SVG}polyline")
    assert len(lines) == len(costs.reads)
    points = sum(len(curve.nbytes) for curve in costs.reads.values())
    assert len(drawing.findall(f"{SVG}circle")) == points
    _, _, width, height = (float(v) for v in drawing.attrib["viewBox"].split())
    for line in lines:
        for point in line.attrib["points"].split():
            x, y = (float(v) for v in point.split(","))
            assert 0.0 < x < width
            assert 0.0 < y < height
    labels = [text.text for text in drawing.findall(f"{SVG}text")]
    assert {"alone", "4 at once, each", "16 at once, each"} <= set(labels)


def test_measured_by_plan(master: Path, tmp_path: Path) -> None:
    result = run(
        *("plan", master, "--budget", "600kB", "--join", "inlj", "--costs", "measure"),
        *("--output", "json"),
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["costs"].startswith("measured on ")
    assert len(list((tmp_path / "cache" / "calibrations").iterdir())) == 1


def test_what_cannot_be(master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = run("calibrate", master, "--stream", master)
    assert wrong.exit_code == 2
    assert "no Parquet file" in " ".join(wrong.stderr.replace("│", " ").split())
    undrawn = run("calibrate", master, "--plot", tmp_path / "no" / "reads.svg")
    assert isinstance(undrawn.exception, OptionError)
    assert "the plot cannot be written" in str(undrawn.exception)
    (tmp_path / "file").touch()
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "file"))
    unkept = run("calibrate", master)
    assert isinstance(unkept.exception, CostError)
    assert "PENSTOCK_CACHE" in str(unkept.exception)


def test_what_was_measured_is_shown_where_it_cannot_be_kept(
    master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "file"))
    result = run("calibrate", master, "--output", "json", "--plot", tmp_path / "reads.svg")
    assert isinstance(result.exception, CostError)
    assert "cannot be kept" in str(result.exception)
    known = json.loads(result.stdout)
    assert known.pop("kept_in") is None
    assert UnitCosts.from_dict(known).reads
    assert (tmp_path / "reads.svg").read_text().startswith("<svg")


def test_a_plot_is_written_over_no_other_file(master: Path, tmp_path: Path) -> None:
    for target, says in ((master, "is no drawing"), (tmp_path / "no" / "x.svg", "no such folder")):
        result = run("calibrate", master, "--plot", target)
        assert isinstance(result.exception, OptionError)
        assert says in str(result.exception)
        assert result.stdout == ""


def test_secrets_of_an_address_are_not_shown(master: Path) -> None:
    uri = f"{master.as_uri()}?sig=SECRET"
    for output in ("text", "json"):
        told = run("plan", uri, "--budget", "600kB", "--join", "inlj", "--output", output)
        assert told.exit_code == 0, told.output
        assert "SECRET" not in told.output
