"""The committed results follow from their own points, and the documentation from them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.experiments.figure import find, known_ids
from penstock.experiments.result_files import results_in, write_all
from penstock.experiments.scale import SCALES
from penstock.experiments.verdicts import judge

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "benchmarks" / "reproduced"
RESULTS = {result["id"]: result for result in results_in(COMMITTED)}


def test_every_figure_was_run_with_all_values_of_its_axes() -> None:
    assert set(RESULTS) == set(known_ids())
    assert not [name for name, result in RESULTS.items() if result["thin"]]


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_somebody_could_run_at_every_x(name: str) -> None:
    """Where all refuse, it is the figure that is wrong."""
    ran = {(row["panel"], row["x"]) for row in RESULTS[name]["rows"] if row["values"]}
    assert ran == {(row["panel"], row["x"]) for row in RESULTS[name]["rows"]}


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_verdicts_are_those_of_the_points(name: str) -> None:
    result = RESULTS[name]
    judged = judge(find(name), SCALES[result["scale"]], result["rows"])
    assert [(v["id"], v["claim"], v["verdict"], v["condition"]) for v in judged] == [
        (v["id"], v["claim"], v["verdict"], v["condition"]) for v in result["verdicts"]
    ]


def test_pages_of_verdicts_are_those_of_the_figures(tmp_path: Path) -> None:
    shutil.copytree(COMMITTED / "figures", tmp_path / "figures")
    assert len(write_all(tmp_path)) == len(RESULTS)
    for name in ("verdicts.json", "verdicts.md"):
        assert (tmp_path / name).read_text("utf-8") == (COMMITTED / name).read_text("utf-8"), name


def test_every_verdict_has_what_is_promised() -> None:
    verdicts = json.loads((COMMITTED / "verdicts.json").read_text("utf-8"))
    assert {verdict["id"].rpartition(".")[0] for verdict in verdicts} <= RESULTS.keys()
    for verdict in verdicts:
        assert {"id", "paper", "figure", "claim", "verdict", "numbers"} <= verdict.keys()
        assert verdict["numbers"] or verdict["verdict"] == "not judged"


def test_tables_of_the_documentation_are_those_of_the_figures() -> None:
    run = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "tables.py", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
