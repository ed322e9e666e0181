"""Building: any source, any order, within memory, whole or not at all."""

from __future__ import annotations

import errno
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from penstock.errors import BudgetError, MasterError, SchemaError
from penstock.keys import codes_of
from penstock.masters import PageFileMaster, build_master, verify_master
from penstock.masters.page_file_write import PageWriter
from penstock.memory import in_one_piece


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("."))


# --- what is built ---------------------------------------------------------------------------


def test_says_what_was_built(tmp_path: Path) -> None:
    table = pa.table({"k": [2, 1, None, 2, 3, None], "v": range(6)})
    info = build_master(table, tmp_path / "r.arrow", "k", version="v1")
    assert info.to_dict() == {
        "path": str(tmp_path / "r.arrow"),
        "key": ["k"],
        "rows": 4,
        "pages": 1,
        "schema": [
            {"name": "k", "type": "int64", "nullable": True},
            {"name": "v", "type": "int64", "nullable": True},
        ],
        "file_bytes": (tmp_path / "r.arrow").stat().st_size,
        "data_bytes": 64,
        "index_bytes": 32,
        "page_bytes": 65_536,
        "largest_page_bytes": info.largest_page_bytes,
        "largest_page_rows": 4,
        "null_keys_dropped": 2,
        "distinct_keys": 3,
        "duplicate_keys": 1,
        "version": "v1",
        "format_version": 1,
    }
    with PageFileMaster(tmp_path / "r.arrow") as master:
        assert master.info() == info
    assert verify_master(tmp_path / "r.arrow") == info


@pytest.mark.parametrize("memory", ["1MB", "4MB", "1GB"])
def test_larger_than_memory_equals_the_sorted_table(tmp_path: Path, memory: str) -> None:
    random = np.random.default_rng(4)
    rows = 150_000
    table = pa.table(
        {
            "k": random.integers(0, 40_000, rows),
            "place": np.arange(rows),
            "text": pa.array(["x" * (i % 30) if i % 13 else None for i in range(rows)]),
            "flag": pa.array(random.random(rows) < 0.5, mask=random.random(rows) < 0.01),
        }
    )
    phases: dict[str, int] = {}
    info = build_master(
        table.to_batches(max_chunksize=7_000),
        tmp_path / "r.arrow",
        "k",
        memory=memory,
        page_bytes=8_192,
        progress=lambda phase, done, _total: phases.update({phase: done}),
        version="same",
    )
    order = np.argsort(table["k"].to_numpy(), kind="stable")
    assert pa.ipc.open_file(tmp_path / "r.arrow").read_all().equals(table.take(pa.array(order)))
    assert info.distinct_keys == len(np.unique(table["k"].to_numpy()))
    assert phases["sort"] == phases["write"] == rows
    assert ("merge" in phases) == (memory == "1MB"), "only the least memory needs several passes"
    assert leftovers(tmp_path) == []
    verify_master(tmp_path / "r.arrow")


def test_the_bytes_do_not_depend_on_memory_or_batches(tmp_path: Path) -> None:
    rows = 60_000
    table = pa.table(
        {
            "k": [i * 7919 % 5_003 for i in range(rows)],
            "list": [[i] * (i % 3) if i % 11 else None for i in range(rows)],
            "text": [None if i % 7 == 0 else "y" * (i % 50) for i in range(rows)],
            "rare": pa.array(np.arange(rows), mask=np.arange(rows) == 77),
        }
    )
    files = []
    for memory, chunk in (("1MB", 999), ("3MB", 20_000), ("1GB", rows)):
        batches = table.to_batches(max_chunksize=chunk)
        build_master(batches, tmp_path / "r.arrow", "k", memory=memory, version="same")
        files.append((tmp_path / "r.arrow").read_bytes())
    assert files[0] == files[1] == files[2]


def test_one_key_with_ten_thousand_rows_owns_one_page(tmp_path: Path) -> None:
    keys = np.concatenate([np.arange(5_000), np.full(10_000, 2_500), np.arange(5_000, 8_000)])
    table = pa.table({"k": keys, "place": np.arange(len(keys))})
    for memory in ("1MB", "1GB"):
        info = build_master(table, tmp_path / "r.arrow", "k", page_bytes=4_096, memory=memory)
        assert info.largest_page_rows == 10_001
        assert info.duplicate_keys == 1
        with PageFileMaster(tmp_path / "r.arrow") as master:
            (page,) = master.page_of(pa.array([2_500])).tolist()
            rows = master.read([page], ["k", "place"])
            assert set(rows.column("k").to_pylist()) == {2_500}
            places = rows.column("place").to_numpy()
            assert (np.diff(places) > 0).all()
            assert master.look_up(pa.array([2_500]), ["place"]).num_rows == 10_001


def test_pages_are_cut_by_real_bytes(tmp_path: Path) -> None:
    texts = ["s" * 10 if i % 100 else "l" * 20_000 for i in range(3_000)]
    table = pa.table({"k": range(3_000), "text": texts})
    info = build_master(table, tmp_path / "r.arrow", "k", page_bytes=30_000)
    assert info.largest_page_bytes <= 31_000
    with pa.ipc.open_file(tmp_path / "r.arrow") as reader:
        sizes = [reader.get_batch(i).nbytes for i in range(info.pages)]
    assert max(sizes) <= 30_000 + 400
    assert min(sizes[:-1]) > 7_000


def test_dictionaries_and_views_are_written_out(tmp_path: Path) -> None:
    table = pa.table(
        {
            "k": pa.array(["b", "a", None, "b"]).dictionary_encode(),
            "view": pa.array(["x", None, "z", "a text too long for a view"], pa.string_view()),
            "runs": pa.RunEndEncodedArray.from_arrays([2, 4], ["p", "q"]),
            "nested": pa.array(
                [["m"], ["n", "m"], [], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))
            ),
        }
    )
    info = build_master(table, tmp_path / "r.arrow", "k")
    assert [str(f.type) for f in info.schema] == [
        "string",
        "string",
        "string",
        "list<item: string>",
    ]
    with PageFileMaster(tmp_path / "r.arrow") as master:
        found = master.look_up(pa.array(["b"]), ["view", "runs", "nested"])
        assert found.to_pylist() == [
            {"view": "x", "runs": "p", "nested": ["m"]},
            {"view": "a text too long for a view", "runs": "q", "nested": None},
        ]


def test_batches_with_dictionaries_of_their_own(tmp_path: Path) -> None:
    batches = [
        pa.record_batch({"k": pa.array(values).dictionary_encode()})
        for values in (["a", "b"], ["c", "b"], ["a"])
    ]
    info = build_master(batches, tmp_path / "r.arrow", "k")
    assert (info.rows, info.distinct_keys) == (5, 3)


def test_a_csv_file(tmp_path: Path, products: pa.Table) -> None:
    pyarrow.csv.write_csv(products, tmp_path / "r.csv")
    info = build_master(tmp_path / "r.csv", tmp_path / "r.arrow", "id")
    assert info.rows == 5_000


def test_a_page_file_can_be_built_again_from_itself(tmp_path: Path, products: pa.Table) -> None:
    path = tmp_path / "r.arrow"
    build_master(products, path, "id")
    info = build_master(path, path, "id", page_bytes=4_096)
    assert info.rows == 5_000
    assert pa.ipc.open_file(path).read_all().equals(products.sort_by("id"))


def test_another_seed_orders_hashed_keys_otherwise(tmp_path: Path) -> None:
    table = pa.table({"k": [f"{i}" for i in range(100)]})
    build_master(table, tmp_path / "r.arrow", "k", hash_seed=7)
    with PageFileMaster(tmp_path / "r.arrow") as master:
        rows = in_one_piece(master.read([0], ["k"]))
        assert master.hash_seed == 7
        assert (np.diff(codes_of([rows.column("k")], 7).astype(object)) > 0).all()
        assert master.look_up(pa.array(["42"]), ["k"]).num_rows == 1


# --- what is refused -------------------------------------------------------------------------


def test_wrong_options(tmp_path: Path, products: pa.Table) -> None:
    target = tmp_path / "r.arrow"
    with pytest.raises(BudgetError, match="page of 100 B is out of range"):
        build_master(products, target, "id", page_bytes=100)
    with pytest.raises(BudgetError, match=r"at least 256\.0 kB of memory"):
        build_master(products, target, "id", memory="1KB")
    with pytest.raises(BudgetError, match="is not a size"):
        build_master(products, target, "id", memory="much")
    with pytest.raises(MasterError, match="there is no folder"):
        build_master(products, tmp_path / "no" / "r.arrow", "id")
    with pytest.raises(MasterError, match="is a folder"):
        build_master(products, tmp_path, "id")
    build_master(products, target, "id")
    with pytest.raises(MasterError, match="exists already"):
        build_master(products, target, "id", overwrite=False)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        ([pa.record_batch({"k": [1]}), pa.record_batch({"l": [1]})], "must have the same columns"),
        ([pa.record_batch({"k": [1]}), pa.record_batch({"k": ["a"]})], "string in a later one"),
    ],
)
def test_batches_that_differ(tmp_path: Path, batches: Any, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        build_master(batches, tmp_path / "r.arrow", "k")
    assert list(tmp_path.iterdir()) == []


def test_one_key_too_big_for_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.masters.page_file_write._MOST_PAGE_BYTES", 10_000)
    table = pa.table({"k": [1] * 2_000 + [2], "v": range(2_001)})
    with pytest.raises(MasterError, match=r"the 2000 rows of key \{'k': 1\} take 32\.0 kB"):
        build_master(table, tmp_path / "r.arrow", "k", page_bytes=256)
    assert list(tmp_path.iterdir()) == []


# --- interrupted -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
@pytest.mark.parametrize("phase", ["sort", "merge", "write"])
def test_an_interrupt_removes_what_was_written(
    tmp_path: Path, products: pa.Table, error: type[BaseException], phase: str
) -> None:
    target = tmp_path / "r.arrow"
    build_master(products, target, "id", version="old")
    table = pa.table({"id": np.arange(200_000)[::-1], "text": ["x" * 20] * 200_000})

    def interrupt(now: str, _done: int, _total: int | None) -> None:
        if now == phase:
            raise error

    with pytest.raises(error):
        build_master(
            table.to_batches(max_chunksize=10_000),
            target,
            "id",
            memory="1MB",
            progress=interrupt,
        )
    assert [p.name for p in tmp_path.iterdir()] == ["r.arrow"]
    with PageFileMaster(target) as master:
        assert master.version == "old"


@pytest.mark.parametrize("during", ["spill", "write"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, during: str) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if during == "spill":
        monkeypatch.setattr("pyarrow.ipc.new_stream", full)
    else:
        monkeypatch.setattr(PageWriter, "write", full)
    table = pa.table({"k": np.arange(100_000)})
    memory, needed = ("1MB", "1.6 MB (twice R") if during == "spill" else ("1GB", "800.0 kB.")
    said = rf"No space left on device.* are free in .*it needs about {re.escape(needed)}.*make room"
    with pytest.raises(MasterError, match=said):
        build_master(table, tmp_path / "r.arrow", "k", memory=memory)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_when_the_number_of_rows_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pyarrow.ipc.new_stream", full)
    batches = pa.table({"k": np.arange(100_000)}).to_batches(max_chunksize=25_000)
    with pytest.raises(MasterError, match=r"it needs more than 400\.0 kB \(twice R"):
        build_master(iter(batches), tmp_path / "r.arrow", "k", memory="1MB")
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_file_size_in_earnest(tmp_path: Path) -> None:
    program = f"""
import resource, numpy as np, pyarrow as pa
from penstock.errors import MasterError
from penstock.masters import build_master
build_master(pa.table({{"k": [1]}}), {str(tmp_path / "warm.arrow")!r}, "k")
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
for memory in ("1MB", "1GB"):
    try:
        build_master(pa.table({{"k": np.arange(200_000)}}), {str(tmp_path / "r.arrow")!r}, "k",
                     memory=memory)
    except MasterError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.count("File too large") == 2
    assert [p.name for p in tmp_path.iterdir()] == ["warm.arrow"]
    assert [p.name for p in tmp_path.iterdir()] == ["warm.arrow"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 300_000


BUILD_AND_HANG = """
import sys, time, numpy as np, pyarrow as pa
from penstock.masters import build_master

def hang(phase, done, total):
    if phase == sys.argv[2]:
        print("hanging", flush=True)
        time.sleep(100)

table = pa.table({"id": np.arange(200_000)[::-1], "text": ["x" * 20] * 200_000})
build_master(table.to_batches(max_chunksize=10_000), sys.argv[1], "id", memory="1MB", progress=hang)
"""


@pytest.fixture
def killed_build(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder in which a build was killed in the phase that the test names."""
    target = tmp_path / "r.arrow"
    with subprocess.Popen(
        [sys.executable, "-c", BUILD_AND_HANG, str(target), request.param],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "hanging\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    return tmp_path


@pytest.mark.parametrize("killed_build", ["sort", "merge", "write"], indirect=True)
def test_a_killed_build_leaves_nothing_that_opens(killed_build: Path, products: pa.Table) -> None:
    target = killed_build / "r.arrow"
    assert not target.exists()
    (left,) = leftovers(killed_build)
    for path in (killed_build / left).iterdir():
        with pytest.raises(MasterError):
            PageFileMaster(path)
    build_master(products, target, "id")
    assert [p.name for p in killed_build.iterdir()] == ["r.arrow"]
    verify_master(target)


@pytest.mark.parametrize("killed_build", ["write"], indirect=True)
def test_what_was_left_of_other_targets_and_by_others_is_let_be(
    killed_build: Path, products: pa.Table
) -> None:
    (left,) = leftovers(killed_build)
    build_master(products, killed_build / "other.arrow", "id")
    assert leftovers(killed_build) == [left]
    prefix = left.rsplit("-", 1)[0]
    kept = [f"{prefix}-1-abcd", ".r.arrow.building-elsewhere-1-abcd", f"{prefix}-abcdef"]
    for name in kept:
        (killed_build / name).mkdir()
    (killed_build / kept[1] / "lock").touch()
    build_master(products, killed_build / "r.arrow", "id")
    assert leftovers(killed_build) == sorted(kept)


def test_a_living_build_is_let_be_whatever_its_number_is_here(
    tmp_path: Path, products: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "r.arrow"

    def nobody(_process: int, _signal: int) -> None:
        raise ProcessLookupError  # as of a process in another container

    monkeypatch.setattr("os.kill", nobody)
    with subprocess.Popen(
        [sys.executable, "-c", BUILD_AND_HANG, str(target), "write"],
        stdout=subprocess.PIPE,
        text=True,
    ) as living:
        try:
            assert living.stdout is not None
            assert living.stdout.readline() == "hanging\n"
            (folder,) = leftovers(tmp_path)
            inside = sorted(p.name for p in (tmp_path / folder).iterdir())
            build_master(products, target, "id")
            assert leftovers(tmp_path) == [folder]
            assert sorted(p.name for p in (tmp_path / folder).iterdir()) == inside
        finally:
            monkeypatch.undo()
            living.kill()
    build_master(products, target, "id")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("killed_build", ["write"], indirect=True)
def test_without_locks_nothing_is_removed_that_others_may_need(
    killed_build: Path, products: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_file: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    before = leftovers(killed_build)
    monkeypatch.setattr("fcntl.flock", refuse)
    build_master(products, killed_build / "r.arrow", "id")
    assert leftovers(killed_build) == before
    verify_master(killed_build / "r.arrow")


def test_killed_at_any_moment_the_file_is_whole(tmp_path: Path, products: pa.Table) -> None:
    target = tmp_path / "r.arrow"
    build_master(products, target, "id", version="old")
    program = BUILD_AND_HANG.replace(
        "build_master(table", 'print("begin", flush=True)\nbuild_master(table'
    ).replace("progress=hang", 'version="new"')
    for wait in (0.0, 0.1, 0.2, 0.4, 0.8):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(target), ""], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begin\n"
            time.sleep(wait)
            process.kill()
        assert verify_master(target).version in ("old", "new")


def test_only_a_page_file_is_replaced(tmp_path: Path) -> None:
    source, notes = tmp_path / "r.csv", tmp_path / "notes.txt"
    source.write_text("k,v\n1,2\n")
    notes.write_text("precious")
    for target in (source, notes):
        with pytest.raises(MasterError, match="not a page file"):
            build_master(source, target, "k")
    assert source.read_text() == "k,v\n1,2\n"
    assert notes.read_text() == "precious"
    for _ in range(2):
        assert build_master(source, tmp_path / "r.arrow", "k").rows == 1
    damaged = (tmp_path / "r.arrow").read_bytes()[:-40]
    (tmp_path / "r.arrow").write_bytes(damaged)
    assert build_master(source, tmp_path / "r.arrow", "k").rows == 1
