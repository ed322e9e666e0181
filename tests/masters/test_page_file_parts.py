"""Page files put together from parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptMasterError, MasterError
from penstock.keys import HASH_SEED
from penstock.masters import PageFileMaster, build_master, verify_master
from penstock.masters.page_file_parts import join_parts
from penstock.testing.oracle import counted

IDS = np.repeat(np.arange(3000), np.arange(3000) % 3 + 1)
ROWS = pa.table(
    {"id": IDS, "name": [f"n{'x' * (i % 17)}" if i % 5 else None for i in range(len(IDS))]}
)


def parts_of(folder: Path, cuts: list[int]) -> list[Path]:
    """Parts with ids up to each cut, and one with the rest."""
    paths = []
    for number, (low, high) in enumerate(zip([0, *cuts], [*cuts, 10**9], strict=True)):
        ids = ROWS["id"].to_numpy()
        part = ROWS.filter(pa.array((ids >= low) & (ids < high)))
        paths.append(folder / f"{number}.part")
        build_master(part, paths[-1], "id", page_bytes=1024)
    return paths


def join(parts: list[Path], path: Path, schema: pa.Schema = ROWS.schema) -> None:
    join_parts(
        parts,
        path,
        schema,
        ("id",),
        hash_seed=HASH_SEED,
        version="v",
        page_bytes=1024,
        null_keys_dropped=7,
    )


@pytest.mark.parametrize("cuts", [[], [1500], [1, 2, 700, 2999], [5000]])
def test_a_file_of_parts_is_as_good_as_one_made_at_once(cuts: list[int], tmp_path: Path) -> None:
    whole = build_master(ROWS, tmp_path / "whole", "id", page_bytes=1024, version="v")
    done: list[int] = []
    parts = parts_of(tmp_path, cuts)
    join(parts, tmp_path / "joined")
    assert verify_master(tmp_path / "joined").rows == ROWS.num_rows
    with PageFileMaster(tmp_path / "joined") as master:
        info = master.info()
        rows = master.read(range(master.num_pages), ["id", "name"])
    assert (info.rows, info.distinct_keys, info.duplicate_keys, info.null_keys_dropped) == (
        whole.rows,
        whole.distinct_keys,
        whole.duplicate_keys,
        7,
    )
    assert info.data_bytes >= whole.data_bytes
    assert counted([rows]) == counted([ROWS])
    if not cuts:
        assert whole.file_bytes == info.file_bytes
    # Any Arrow reader opens it.
    with pa.OSFile(str(tmp_path / "joined")) as file:
        assert pa.ipc.open_file(file).read_all().num_rows == ROWS.num_rows
    join_parts(
        parts,
        tmp_path / "again",
        ROWS.schema,
        ("id",),
        hash_seed=HASH_SEED,
        version="v",
        page_bytes=1024,
        null_keys_dropped=0,
        advance=done.append,
    )
    assert done[-1] == ROWS.num_rows
    assert len(done) == len(parts)


def test_no_parts_are_an_empty_master(tmp_path: Path) -> None:
    join([], tmp_path / "empty")
    with PageFileMaster(tmp_path / "empty") as master:
        assert (master.num_rows, master.num_pages) == (0, 1)


def test_parts_that_cannot_be_put_together(tmp_path: Path) -> None:
    first, second = parts_of(tmp_path, [1500])
    with pytest.raises(CorruptMasterError, match="not in order"):
        join([second, first], tmp_path / "a")
    with pytest.raises(MasterError, match="is not to be seen from here"):
        join([first, tmp_path / "elsewhere"], tmp_path / "b")
    with pytest.raises(CorruptMasterError, match="other columns"):
        join([first], tmp_path / "c", pa.schema([("id", pa.int64())]))
    damaged = bytearray(first.read_bytes())
    damaged[2000] ^= 1
    first.write_bytes(damaged)
    with pytest.raises(CorruptMasterError, match=r"page \d+ of .* does not match its checksum"):
        join([first], tmp_path / "d")
