"""Parquet files that change: what a refresh tells, and what a join then answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.masters.lake.tables import products, rows_of, write

from penstock.errors import MasterError
from penstock.joins import HybridJoin, RootJoin
from penstock.masters import ParquetMaster
from penstock.testing.oracle import assert_same_rows, plain_join


def test_refresh_without_news(parquet_folder: Path) -> None:
    with ParquetMaster(parquet_folder, "id", page_bytes=1) as master:
        assert master.refresh() is None


def test_refresh_tells_the_keys_of_files_that_changed(parquet_folder: Path) -> None:
    with ParquetMaster(parquet_folder, "id", page_bytes=1) as master:
        before = master.version
        write(products(250, 500, price=7), parquet_folder / "8.parquet", 50)
        write(products(1_000, 1_100), parquet_folder / "new.parquet", 50)
        (parquet_folder / "6.parquet").unlink()
        changes = master.refresh()
        assert changes is not None
        assert changes.since == before
        assert changes.version == master.version != before
        told = changes.touched(np.array([0, 249, 250, 499, 500, 749, 750, 999, 1_000, 1_099]))
        assert told.tolist() == [False, False, True, True, False, False, True, True, True, True]
        assert master.num_rows == 850
        expected = [products(0, 250), products(250, 500, 7), products(500, 750)]
        expected.append(products(1_000, 1_100))
        assert rows_of(master) == pa.concat_tables(expected).to_pylist()


def test_files_that_stay_are_not_looked_at_again(
    parquet_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.masters.lake.files import ParquetFiles

    looked: list[str] = []
    own = ParquetFiles.describe

    def counting(self: ParquetFiles, file: object, wanted: object) -> object:
        looked.append(Path(file.path).name)  # type: ignore[attr-defined]
        return own(self, file, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(ParquetFiles, "describe", counting)
    with ParquetMaster(parquet_folder, "id", page_bytes=1) as master:
        assert sorted(looked) == ["6.parquet", "7.parquet", "8.parquet", "9.parquet"]
        looked.clear()
        write(products(1_000, 1_100), parquet_folder / "new.parquet", 50)
        master.refresh()
        assert looked == ["new.parquet"]


def test_refresh_to_what_cannot_take_over(parquet_folder: Path) -> None:
    with ParquetMaster(parquet_folder, "id", page_bytes=1) as master:
        before = master.version
        overlapping = write(products(100, 400), parquet_folder / "new.parquet", 50)
        with pytest.raises(MasterError, match=f"not sorted.*Version {before} stays in use"):
            master.refresh()
        assert rows_of(master) == products().to_pylist()
        overlapping.unlink()
        assert master.refresh() is None


def test_a_file_that_changes_under_the_reader(parquet_folder: Path) -> None:
    with ParquetMaster(parquet_folder, "id", page_bytes=1) as master:
        (parquet_folder / "7.parquet").unlink()
        assert master.read([0], ["id"]).num_rows == 50
        with pytest.raises(MasterError, match=r"7\.parquet.* is not there any more.*Refresh"):
            master.read([10], ["id"])
        write(products(500, 740), parquet_folder / "7.parquet", 50)
        with pytest.raises(MasterError, match=r"7\.parquet.* was written again.*Refresh"):
            master.read([10], ["id"])
        assert master.refresh() is not None
        assert master.num_rows == 990


@pytest.mark.parametrize("plan", [RootJoin, HybridJoin])
def test_a_join_while_the_table_changes(
    parquet_folder: Path, plan: Callable[..., RootJoin]
) -> None:
    """Rows added, changed and removed: answers are of the version of their time."""
    random = np.random.default_rng(3)
    stream = pa.table({"id": random.integers(0, 1_200, 3_000), "serial": range(3_000)})
    first, second = stream.slice(0, 1_500), stream.slice(1_500)
    with ParquetMaster(parquet_folder, "id", page_bytes=1) as master:
        join = plan(budget="300kB").build(master, stream.schema, on="id")
        out = [p for b in first.to_batches(max_chunksize=200) for p in join.push(b)]
        out += list(join.flush())
        assert_same_rows(out, plain_join(first, products(), ["id"]).rows, "before")
        write(products(250, 500, price=7), parquet_folder / "8.parquet", 50)
        write(products(1_000, 1_100), parquet_folder / "new.parquet", 50)
        (parquet_folder / "6.parquet").unlink()
        join.refresh(master.refresh())
        now = pa.concat_tables(
            [products(0, 250), products(250, 500, 7), products(500, 750), products(1_000, 1_100)]
        )
        out = [p for b in second.to_batches(max_chunksize=200) for p in join.push(b)]
        out += list(join.flush())
        assert_same_rows(out, plain_join(second, now, ["id"]).rows, "after")
