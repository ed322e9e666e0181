"""Damage: every flipped bit and every cut is noticed, named, and never answered with wrong rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptMasterError, MasterError
from penstock.masters import PageFileMaster, build_master, verify_master
from penstock.masters import page_index as page_index_module
from penstock.masters.page_file_write import PageWriter

TABLE = pa.table({"k": range(60), "t": [f"text {i}" if i % 5 else None for i in range(60)]})
NAMES = ["k", "t"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    info = build_master(TABLE, tmp_path / "r.arrow", "k", page_bytes=256, version="v")
    assert info.pages >= 4
    return tmp_path / "r.arrow"


def offsets_of(path: Path) -> list[int]:
    with PageFileMaster(path) as master:
        return master.index.offsets.tolist()


def test_every_flipped_bit_is_noticed(path: Path) -> None:
    good = path.read_bytes()
    offsets = offsets_of(path)
    regions = {"header": 0, "page": 0, "behind": 0}
    with path.open("r+b", buffering=0) as file:
        for at, byte in enumerate(good):
            os.pwrite(file.fileno(), bytes([byte ^ (1 << at % 8)]), at)
            page = int(np.searchsorted(offsets, at, side="right")) - 1
            if 0 <= page < len(offsets) - 1:
                regions["page"] += 1
                with PageFileMaster(path, direct=False) as master:
                    with pytest.raises(
                        CorruptMasterError, match=rf"page {page} of .*r\.arrow does"
                    ):
                        master.read(range(master.num_pages), NAMES)
                    others = [p for p in range(master.num_pages) if p != page]
                    assert master.read(others, NAMES).num_rows < 60
            else:
                regions["header" if page < 0 else "behind"] += 1
                with pytest.raises(CorruptMasterError, match=r"r\.arrow is damaged: .* restore"):
                    PageFileMaster(path, direct=False)
            os.pwrite(file.fileno(), bytes([byte]), at)
    assert min(regions.values()) > 100
    assert sum(regions.values()) == len(good)
    verify_master(path)


def test_every_cut_is_noticed(path: Path) -> None:
    good = path.read_bytes()
    for size in reversed(range(len(good))):
        os.truncate(path, size)
        expected = MasterError if size < 6 else CorruptMasterError
        with pytest.raises(expected, match=r"r\.arrow"):
            PageFileMaster(path, direct=False)
    path.write_bytes(good)
    verify_master(path)


def test_bytes_at_the_end_are_noticed(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CorruptMasterError, match="it ends without a footer"):
        PageFileMaster(path)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_file_cut_while_it_is_open(tmp_path: Path, direct: bool, threads: int) -> None:
    path = tmp_path / "r.arrow"
    table = pa.table({"k": np.arange(100_000)})
    build_master(table, path, "k")
    with PageFileMaster(path, direct=direct, threads=threads) as master:
        os.truncate(path, int(master.index.offsets[5]) + 100)
        with pytest.raises(
            CorruptMasterError, match=r"page 5 of 13 of .* is cut off: the file ends"
        ):
            master.read([2, 5], ["k"])
        assert master.read([0, 2, 4], ["k"]).num_rows == 3 * 8_192


@pytest.mark.parametrize("threads", [1, 4])
def test_one_bad_page_among_many(tmp_path: Path, threads: int) -> None:
    path = tmp_path / "r.arrow"
    build_master(pa.table({"k": np.arange(300_000), "v": np.arange(300_000)}), path, "k")
    with PageFileMaster(path, threads=threads) as master:
        with path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), b"\xff" * 16, int(master.index.offsets[33]) + 9_000)
        pages = range(0, master.num_pages, 3)
        with pytest.raises(CorruptMasterError, match=f"page 33 of {master.num_pages} of"):
            master.read(pages, ["k"])
        assert master.reads.io_reads == 0
        assert master.read([p for p in pages if p != 33], ["k"]).num_rows > 0
    with pytest.raises(CorruptMasterError, match="page 33 of"):
        verify_master(path)


def test_a_newer_format_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(page_index_module, "FORMAT_VERSION", 3)
        build_master(TABLE, path, "k")
    with pytest.raises(MasterError, match="has format 3; this Penstock reads formats up to 1"):
        PageFileMaster(path)


# --- files that are sound as files but break the promises of the index -----------------------


def write(path: Path, pages: list[tuple[list[Any], list[int]]]) -> None:
    """Pages of keys with codes as they are claimed to be."""
    schema = pa.schema([("k", pa.int64())])
    with PageWriter(path, schema, ("k",), hash_seed=42, version="v") as writer:
        for keys, codes in pages:
            writer.write(np.array(codes, dtype=np.int64), pa.record_batch([keys], schema=schema))
        writer.finish(page_bytes=256, null_keys_dropped=0)


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        ([([1, 2], [1, 2]), ([4, 3], [3, 4])], "page 1 of 2 of .* is not sorted by key"),
        ([([1, 2], [1, 2]), ([3, 4], [5, 6])], "page 1 .* begins with code 3 where its fence is 5"),
        ([([1, 2], [1, 2]), ([2, 3], [2, 3])], "page 1 .* belongs to the page before"),
        ([([1, None], [1, 2])], "page 0 of 1 .* has a row without a key"),
        ([([1], [1]), ([], []), ([2], [2])], "page 1 of 3 .* has no rows"),
        ([([1, 1], [1, 2])], "has 2 rows and 1 keys where its index says 2 and 2"),
    ],
)
def test_verify_says_which_promise_is_broken(
    tmp_path: Path, pages: list[tuple[list[Any], list[int]]], says: str
) -> None:
    write(tmp_path / "r.arrow", pages)
    with pytest.raises(CorruptMasterError, match=says):
        verify_master(tmp_path / "r.arrow")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda index: replace(index, rows=index.rows + 1), "page 0 .* where the index says"),
        (lambda index: replace(index, fences=index.fences - 1), "page 0 .* fence is -1"),
    ],
)
def test_verify_reads_what_the_index_says(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any], says: str
) -> None:
    real = page_index_module.read_index

    def other_index(file: int, where: Path) -> Any:
        index, schema = real(file, where)
        return change(index), schema

    monkeypatch.setattr("penstock.masters.page_file.read_index", other_index)
    with pytest.raises(CorruptMasterError, match=says):
        verify_master(path)


def test_verify_tells_how_far_it_is(path: Path) -> None:
    steps: list[tuple[int, int]] = []
    info = verify_master(path, lambda done, total: steps.append((done, total)))
    assert steps == [(i + 1, info.pages) for i in range(info.pages)]
