"""Figures' results in files: what is not whole is named; no words break a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.experiments.case import Case, ExperimentError
from penstock.experiments.intervals import single
from penstock.experiments.job import CaseJob
from penstock.experiments.kept import Kept
from penstock.experiments.result_files import result_in, results_in, write_all, write_result


def result(**parts: Any) -> dict[str, Any]:
    return {
        "id": "mine",
        "paper": "penstock",
        "figure": "",
        "title": "Mine",
        "scale": "small",
        "thin": False,
        "clocks": ["counted"],
        "note": "",
        "measured_at": "2026-01-01T00:00:00+00:00",
        "commit": "abc",
        "machine": {"processor": "some", "cores": 2},
        "seconds": 1.0,
        "x": {"field": "skew", "label": "skew", "log": False},
        "y": None,
        "panels": [{"name": "", "label": ""}],
        "quantities": [{"name": "q", "label": "q", "clock": "counted", "log": False}],
        "series": [{"name": "a", "label": "A"}],
        "rows": [{"series": "a", "panel": "", "x": 1, "y": None, "values": {"q": single(2.0)}}],
        "verdicts": [
            {
                "id": "mine.1",
                "paper": "penstock",
                "figure": "",
                "claim": "it holds",
                "verdict": "reproduced",
                "condition": "",
                "clocks": ["counted"],
                "said": "it does",
                "findings": ["✓ it does"],
                "numbers": {},
            }
        ],
        **parts,
    }


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_result(tmp_path, result())
    assert results_in(tmp_path) == [result()]
    assert result_in(tmp_path, "mine") == result()
    assert result_in(tmp_path, "other") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r.update(rows=[1]),
        lambda r: r.update(rows=[{}]),
        lambda r: r["rows"][0].update(values={"q": {"mean": None}}),
        lambda r: r["rows"][0].update(values={"q": {"mean": float("nan")}}),
        lambda r: r.update(verdicts=[1]),
        lambda r: r.update(verdicts=[{}]),
        lambda r: r["verdicts"][0].update(id="other.1"),
        lambda r: r.update(series=[{}]),
        lambda r: r.update(quantities=[{}]),
        lambda r: r.update(x=None),
        lambda r: r.update(seconds="x"),
        lambda r: r.pop("machine"),
    ],
)
def test_what_is_damaged_is_named(
    tmp_path: Path, damage: Callable[[dict[str, Any]], object]
) -> None:
    damaged = result()
    damage(damaged)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.json").write_text(json.dumps(damaged))
    with pytest.raises(ExperimentError, match=r"mine.json is no figure's results: .*Remove it"):
        results_in(tmp_path)
    assert result_in(tmp_path, "mine") is None


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[]", "null", ""])
def test_what_is_no_result_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.json").write_text(text)
    with pytest.raises(ExperimentError, match=r"mine.json is no figure's results"):
        results_in(tmp_path)


def test_where_points_come_from_is_said(tmp_path: Path) -> None:
    others = [{"processor": "another", "cores": 4}]
    write_result(tmp_path, result(other_machines=others, direct=False))
    write_all(tmp_path)
    said = (tmp_path / "verdicts.md").read_text("utf-8")
    assert "some, 2 cores, and 1 other, reads through the kernel's cache" in said
    report = (tmp_path / "report.html").read_text("utf-8")
    assert "<dt>timed through the kernel&#x27;s cache</dt><dd>mine</dd>" in report
    assert "<dd>another</dd>" in report


def test_words_of_a_claim_do_not_break_the_page(tmp_path: Path) -> None:
    odd = result()
    odd["verdicts"][0] |= {"claim": "a|b\\|c <script>\nnew & old", "findings": ["✓ x\n|y", "✗ z"]}
    write_result(tmp_path, odd)
    write_all(tmp_path)
    page = (tmp_path / "verdicts.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("| mine.1 |"))
    assert r"a\|b\\\|c &lt;script> new &amp; old" in line
    assert r"✓ x \|y<br>✗ z" in line
    assert "1 claim: 1 reproduced." in page


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": float("nan")},
        {"seconds": None},
        {"values": {"q": {"mean": float("nan")}}},
        {"values": {"q": {"mean": "many"}}},
        {"values": {"way": {"q": {"mean": None}}}},
    ],
)
def test_a_kept_run_without_numbers_is_none(tmp_path: Path, change: dict[str, Any]) -> None:
    job = CaseJob("counted", Case(join="rootjoin"), 20)
    Kept(tmp_path).put(job, {"q": single(1.0)}, 0.5)
    assert Kept(tmp_path).get(job) is not None
    (path,) = tmp_path.glob("*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert Kept(tmp_path).get(job) is None
