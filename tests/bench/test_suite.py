"""Each measurement is a process of its own here, so there are few."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.bench import BenchError, JoinCase, Suite
from penstock.bench.join import operator
from penstock.bench.process import measure
from penstock.errors import BudgetError
from penstock.masters import Master, build_master, open_master


class Notes:
    def __init__(self) -> None:
        self.steps: list[tuple[str, int]] = []
        self.left_out: dict[str, str] = {}
        self.reached = 0

    def begins(self, what: str, rows: int) -> None:
        assert not self.steps or self.reached == self.steps[-1][1]
        self.steps.append((what, rows))

    def reaches(self, rows: int) -> None:
        self.reached = rows

    def leaves_out(self, join: str, why: str) -> None:
        self.left_out[join] = why


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_a_process_counts_what_this_one_counts(
    case: JoinCase, page_file: str, temporary: Path
) -> None:
    notes = Notes()
    (result,) = Suite(case, ["hybridjoin"], baselines=False).run(notes)
    assert notes.steps == [
        ("building R", case.rows),
        ("predicting", 1),
        ("hybridjoin", case.stream),
    ]
    assert result["predicted_rows_per_second"] > 0
    assert result["predicted_rows_per_read"] > 0
    assert result["rows_in"] == result["rows_out"] == case.stream
    assert result["in_memory_rows_per_second"] is None
    assert result["polars_rows_per_second"] is None
    assert result["rows_per_second_of_runs"] == [result["rows_per_second"]]
    assert "compiled" not in result
    for name in ("rows", "stream", "skew", "order", "missing", "page_bytes", "seed"):
        assert result[name] == getattr(case, name)
    assert list(temporary.iterdir()) == []


def test_a_budget_that_is_too_small_is_said_before_anything_is_measured(
    case: JoinCase, temporary: Path
) -> None:
    notes = Notes()
    with pytest.raises(BudgetError, match="hybridjoin: HYBRIDJOIN needs at least"):
        Suite(replace(case, budget="9kB"), ["hybridjoin"], only_fitting=True).run(notes)
    assert len(notes.steps) == 1
    assert list(temporary.iterdir()) == []


def test_so_is_a_batch_that_does_not_fit(case: JoinCase, page_file: str) -> None:
    suite = Suite(replace(case, batch_rows=20_000), ["hybridjoin"])
    with pytest.raises(BudgetError, match=r"hybridjoin: a batch of 400\.0 kB"):
        suite._fitting(Path(page_file), Notes())


def test_only_fitting_leaves_the_others_out(case: JoinCase, page_file: str) -> None:
    with open_master(page_file) as master:
        least = min_budget(case, "rootjoin", master)
        small = replace(case, budget=least, batch_rows=64)
        with pytest.raises(BudgetError):
            operator("cachejoin", small, master)
    notes = Notes()
    suite = Suite(small, ["cachejoin", "rootjoin"], only_fitting=True)
    assert suite._fitting(Path(page_file), notes) == ["rootjoin"]
    assert "needs at least" in notes.left_out["cachejoin"]
    with pytest.raises(BudgetError, match="cachejoin"):
        Suite(small, ["cachejoin", "rootjoin"])._fitting(Path(page_file), notes)


def min_budget(case: JoinCase, name: str, master: Master) -> int:
    """The least budget that the join takes, from its own words."""
    with pytest.raises(BudgetError) as refused:
        operator(name, replace(case, budget=1000), master)
    return int(str(refused.value).partition("(")[2].partition(" bytes")[0])


def test_the_page_file_is_kept_and_used_again(case: JoinCase, tmp_path: Path) -> None:
    path, notes = tmp_path / "kept.arrow", Notes()
    suite = Suite(case, ["hybridjoin"], master=path)
    with suite._page_file(notes) as first:
        built = first.stat().st_mtime_ns
    with suite._page_file(notes) as second:
        assert second == path
        assert second.stat().st_mtime_ns == built
    other = Suite(replace(case, seed=8), ["hybridjoin"], master=path)
    with pytest.raises(BenchError, match=r"'sales-5000-4096-7'.*'sales-5000-4096-8'"):
        other.run(notes)
    assert path.stat().st_mtime_ns == built


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"id,price\n1,2\n", "is not a page file but a file of another kind. Name a file"),
        (b"", "is not a page file but an empty file. Name a file"),
        (None, "is a folder.*Name a file"),
    ],
    ids=["text", "empty", "folder"],
)
def test_a_file_that_is_no_page_file_is_left_alone(
    case: JoinCase, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "theirs"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(BenchError, match=said):
        Suite(case, ["hybridjoin"], master=path).run(Notes())
    assert content is None or path.read_bytes() == content


def test_a_page_file_of_other_data_is_left_alone(case: JoinCase, tmp_path: Path) -> None:
    path = tmp_path / "theirs.arrow"
    build_master(pa.table({"id": [1]}), path, "id", version="mine")
    with pytest.raises(BenchError, match="a page file that is no benchmark's: it holds 'mine'"):
        Suite(case, ["hybridjoin"], master=path).run(Notes())


def test_baselines_come_before_between_and_after(case: JoinCase) -> None:
    suite = Suite(case, ["a", "b", "c", "d"], repeat=2)
    whats = [what for what, _ in suite._steps(suite.joins)]
    assert whats == ["memory", "polars", *["join"] * 4] * 2 + ["memory", "polars"]
    assert suite.steps == 2 + len(whats)


def test_the_median_run_is_reported(case: JoinCase) -> None:
    suite = Suite(case, ["a"], repeat=3)
    runs = [{"rows_per_second": rate, "run": i} for i, rate in enumerate((5.0, 9.0, 7.0))]
    report = suite._report("a", runs, {"polars_way": None})
    assert (report["run"], report["rows_per_second"]) == (2, 7.0)
    assert report["rows_per_second_of_runs"] == [5.0, 9.0, 7.0]


@pytest.mark.parametrize("wrong", [{"repeat": 0}, {"joins": []}])
def test_nothing_to_measure_is_refused(case: JoinCase, wrong: dict[str, object]) -> None:
    with pytest.raises(BenchError):
        Suite(case, **{"joins": ["rootjoin"], **wrong})  # type: ignore[arg-type]


def test_what_a_worker_refuses_is_said_here(case: JoinCase, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.arrow")
    with pytest.raises(BenchError, match="hybridjoin: there is no file"):
        measure("join", case, case.workload(), gone, "hybridjoin", lambda _: None)


def test_a_worker_that_breaks_is_said_with_its_last_words(case: JoinCase, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.arrow")
    with pytest.raises(BenchError, match="ended with code 1; it said: FileNotFoundError"):
        measure("memory", case, case.workload(), gone, "in memory", lambda _: None)
