"""Calibration: what is measured makes sense, and is found again. Never how long anything takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock import MemoryMaster
from penstock.costs import read_timing, row_timing
from penstock.costs.calibration import (
    NOMINAL,
    at_any_rate,
    calibrate,
    default_stream,
    keep_calibration,
    kept_calibration,
)
from penstock.costs.row_timing import _explaining, _nearest, _plain, _Run
from penstock.costs.service_rate import KINDS
from penstock.costs.unit_costs import ROW_COSTS, CostError, UnitCosts
from penstock.masters import Master, PageFileMaster, build_master
from penstock.streams import SalesStream

SALES = SalesStream(products=20_000)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageFileMaster]:
    path = tmp_path_factory.mktemp("r") / "r.arrow"
    build_master(SALES.master_table(), path, "product_id", page_bytes=8192)
    with PageFileMaster(path) as master:
        yield master


@pytest.fixture(autouse=True, scope="module")
def _soon_done() -> Iterator[None]:
    """A setting of each kind, each for as short as can be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_timing, "_CASES", row_timing._CASES[::3])
        patch.setattr(row_timing, "_SECONDS", 0.02)
        patch.setattr(read_timing, "_SECONDS", 0.005)
        yield


@pytest.fixture(scope="module")
def measured(page_file: PageFileMaster) -> tuple[UnitCosts, list[str]]:
    said: list[str] = []
    return calibrate(page_file, SALES.schema, on="product_id", progress=said.append), said


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))


def small(rows: int = 500, page_rows: int = 10) -> MemoryMaster:
    return MemoryMaster(pa.table({"id": range(rows), "v": range(rows)}), "id", page_rows=page_rows)


def assert_makes_sense(costs: UnitCosts, master: Master) -> None:
    assert {"hybridjoin", "cachejoin"} <= set(costs.kinds) <= set(KINDS)
    for kind in costs.kinds.values():
        assert set(kind) == set(ROW_COSTS)
        assert all(isfinite(cost) and cost >= 0.0 for cost in kind.values())
    assert sum(cost for kind in costs.kinds.values() for cost in kind.values()) > 0.0
    assert min(costs.reads) == 1
    for curve in costs.reads.values():
        assert curve.nbytes[0] == pytest.approx(master.data_nbytes / master.num_pages)
        assert all(b == 2 * a for a, b in pairwise(curve.nbytes))
        assert all(b >= a for a, b in pairwise(curve.seconds))
        assert all(isfinite(s) and s > 0.0 for s in curve.seconds)


# --- what is measured ----------------------------------------------------------------------------


def test_a_page_file(measured: tuple[UnitCosts, list[str]], page_file: PageFileMaster) -> None:
    costs, said = measured
    assert_makes_sense(costs, page_file)
    # 295 pages: an eighth of them at the most is asked for together.
    assert {n: len(curve.nbytes) for n, curve in costs.reads.items()} == {1: 6, 4: 4, 16: 2}
    assert costs.source.startswith("measured on ")
    assert said[12:15] == ["reading keys of R", "ROOTJOIN, 1 of 4", "HYBRIDJOIN, 2 of 4"]
    assert len(said) == 12 + 5
    assert costs.kinds["hybridjoin"]["probe"] == 0.0
    assert costs.kinds["rootjoin"]["look"] == 0.0


def test_texts_dates_and_a_composite_key() -> None:
    """Some of whose batches would not fit the budget of a measurement."""
    rows = 4_000
    days = pa.array(np.arange(rows) // 50, pa.int32()).cast(pa.date32())
    table = pa.table({"shop": [f"s{i % 50}" for i in range(rows)], "day": days, "v": range(rows)})
    master = MemoryMaster(table, ["shop", "day"], page_rows=50)
    stream = pa.schema(
        [
            ("store", pa.string()),
            ("day", pa.date32()),
            ("note", pa.string()),
            ("sold", pa.date32()),
            ("basket", pa.list_(pa.int64())),
        ]
    )
    costs = calibrate(master, stream, on=[("store", "shop"), "day"], columns=["v"])
    assert_makes_sense(costs, master)


@pytest.mark.parametrize(
    "stream",
    [None, pa.schema([("id", pa.int32()), *((f"t{i}", pa.string()) for i in range(12))])],
    ids=["default", "wide, keys too small"],
)
def test_one_page_of_all_rows(stream: pa.Schema | None) -> None:
    """Wider than the budget of a measurement, with keys that a stream's type cannot hold."""
    count = 10_000
    columns = {f"v{i}": np.arange(count) for i in range(15)}
    table = pa.table({"id": np.arange(count) + 2**40, **columns})
    master = MemoryMaster(table, "id", page_rows=count)
    assert_makes_sense(calibrate(master, stream), master)


def test_an_empty_master_is_refused() -> None:
    empty = MemoryMaster(pa.table({"id": pa.array([], pa.int64())}), "id")
    with pytest.raises(CostError, match="has no rows"):
        calibrate(empty)


def test_the_default_stream_has_the_key_and_something_beside() -> None:
    stream = default_stream(small())
    assert stream.names[0] == "id"
    assert len(stream) == 3


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.decimal128(9, 2),
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.dictionary(pa.int32(), pa.string()),
        pa.null(),
        pa.bool_(),
        pa.float32(),
    ],
    ids=str,
)
def test_values_of_any_type(kind: pa.DataType) -> None:
    made = _plain(kind, 3)
    assert (made.type, len(made)) == (kind, 3)


# --- the costs that explain what was counted -----------------------------------------------------


def test_known_costs_are_recovered() -> None:
    random = np.random.default_rng(3)
    true = np.array([20e-9, 0.0, 300e-9, 0.0, 50e-6])
    counts = random.integers(1, 1000, (40, 5)) * np.array([1000.0, 1000.0, 500.0, 100.0, 1.0])
    found = _nearest(counts, counts @ true, counts @ true)
    assert found == pytest.approx(true, rel=1e-3, abs=1e-12)


def test_no_cost_is_below_zero() -> None:
    """Whatever would explain the seconds best if it might be."""
    counts = np.array([[100.0, 1.0], [100.0, 50.0], [100.0, 100.0]])
    found = _nearest(counts, np.array([3.0, 2.0, 1.0]), np.ones(3))
    assert found[0] > 0.0
    assert found[1] == 0.0


def test_a_step_that_was_never_taken_costs_nothing() -> None:
    found = _nearest(np.array([[10.0, 0.0], [20.0, 0.0]]), np.array([1.0, 2.0]), np.ones(2))
    assert found == pytest.approx([0.1, 0.0])


def test_runs_are_explained_step_by_step() -> None:
    """What a cost is part of in several steps is added up."""
    random = np.random.default_rng(5)
    in_step = {
        "filing": {"add": 40e-9, "turn": 60e-6},
        "answering": {"remove": 80e-9, "turn": 90e-6},
        "putting out": {"emit": 20e-9, "piece": 150e-6},
        "reading": {},
    }
    runs = []
    for _ in range(6):
        turns = int(random.integers(10, 400))
        rows = turns * int(random.integers(100, 9_000))
        counts = dict.fromkeys(ROW_COSTS, 0.0) | dict.fromkeys(
            ("add", "remove", "emit"), float(rows)
        )
        counts |= {"turn": float(turns), "piece": 3.0 * turns}
        steps = dict.fromkeys((*row_timing._EXPLAINED, "reading"), 0.0)
        steps |= {
            s: sum(counts[c] * each for c, each in part.items()) for s, part in in_step.items()
        }
        runs.append(_Run(counts, {**steps, "reading": 1.0}))
    found = _explaining(runs)
    wanted = {"add": 40.0, "remove": 80.0, "emit": 20.0, "turn": 150e3, "piece": 150e3}
    assert {cost: found[cost] for cost in wanted} == pytest.approx(wanted, rel=0.02)
    assert sum(found.values()) == pytest.approx(sum(wanted.values()), rel=0.02)


# --- kept and found again ------------------------------------------------------------------------


def test_costs_of_another_stream_are_better_than_none() -> None:
    master, other = small(), small(page_rows=400)
    first = replace(NOMINAL, take=1.0, source="measured on a machine")
    second = replace(NOMINAL, take=2.0, source="measured on a machine")
    older = keep_calibration(first, master)
    os.utime(older, (1.0, 1.0))
    wide = pa.schema([("id", pa.int64()), ("note", pa.string())])
    keep_calibration(second, master, wide, ["v"])
    assert at_any_rate(master) == first
    found = at_any_rate(master, wide)
    assert found == second
    assert found.source == "measured on a machine, with a stream of other columns"
    keep_calibration(second, master, wide, ["v"]).write_text("no costs")
    assert at_any_rate(master, wide) == first
    assert at_any_rate(other, wide) is NOMINAL


def test_kept_and_read_back(
    measured: tuple[UnitCosts, list[str]], page_file: PageFileMaster, tmp_path: Path
) -> None:
    costs, _ = measured
    assert kept_calibration(page_file, SALES.schema) is None
    assert at_any_rate(page_file, SALES.schema) is NOMINAL
    path = keep_calibration(costs, page_file, SALES.schema)
    assert path.is_relative_to(tmp_path / "cache")
    assert [*path.parent.iterdir()] == [path]
    assert kept_calibration(page_file, SALES.schema) == costs
    assert at_any_rate(page_file, SALES.schema) == costs
    assert at_any_rate(page_file, SALES.schema).source == costs.source


def test_what_is_kept_is_for_one_master_and_stream() -> None:
    master, stream = small(), pa.schema([("id", pa.int64())])
    keep_calibration(NOMINAL, master, stream, ["v"])
    assert kept_calibration(master, stream, ["v"]) == NOMINAL
    assert kept_calibration(master, stream) is None
    assert kept_calibration(master, None, ["v"]) is None
    other = MemoryMaster(pa.table({"id": range(9), "v": ["x"] * 9}), "id")
    assert kept_calibration(other, stream, ["v"]) is None


def test_the_last_that_was_kept_counts() -> None:
    master = small()
    newer = UnitCosts.from_dict({**NOMINAL.to_dict(), "probe": 99.0})
    assert keep_calibration(NOMINAL, master) == keep_calibration(newer, master)
    assert kept_calibration(master) == newer


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"reads": {}}', b"\xff\xfe\x00", b"null", b'"costs"']
)
def test_a_damaged_file_is_ignored(damage: bytes) -> None:
    master = small()
    keep_calibration(NOMINAL, master).write_bytes(damage)
    assert kept_calibration(master) is None
    assert at_any_rate(master) is NOMINAL


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "file"))
    assert kept_calibration(small()) is None
    with pytest.raises(CostError, match="Set PENSTOCK_CACHE to a folder that can be written"):
        keep_calibration(NOMINAL, small())


def test_without_a_setting_it_is_the_cache_of_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = keep_calibration(NOMINAL, small())
    assert path.parent == Path(os.environ["XDG_CACHE_HOME"]) / "penstock" / "calibrations"


def test_who_has_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PENSTOCK_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert at_any_rate(small()) is NOMINAL
    assert keep_calibration(NOMINAL, small()).is_relative_to(tmp_path)


def test_others_may_read_what_is_kept() -> None:
    assert keep_calibration(NOMINAL, small()).stat().st_mode & 0o777 == 0o644


def test_a_master_of_a_few_rows_is_held_by_whoever_can() -> None:
    costs = calibrate(small(rows=10))
    assert "rootjoin" not in costs.kinds
    assert costs.of("rootjoin").choose < 1e7
