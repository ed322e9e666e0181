"""What a page file may be written onto: files and links to them, nothing else."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import MasterError
from penstock.masters import PageFileMaster, build_master

TABLE = pa.table({"k": [1, 2, 3], "v": [4, 5, 6]})


def rows_at(path: Path) -> int:
    with PageFileMaster(path) as master:
        return master.num_rows


def test_a_device_stays_a_device() -> None:
    with pytest.raises(MasterError, match=r"/dev/null is a device; name a file"):
        build_master(TABLE, "/dev/null", "k")
    assert Path("/dev/null").is_char_device()


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MasterError, match=r"pipe is a pipe; name a file"):
        build_master(TABLE, tmp_path / "pipe", "k")
    assert (tmp_path / "pipe").is_fifo()


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # A socket's path must be short.
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        with pytest.raises(MasterError, match=r"socket is a socket; name a file"):
            build_master(TABLE, "socket", "k")
    assert (tmp_path / "socket").is_socket()


def test_a_folder_is_refused_also_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("folder", "link"):
        with pytest.raises(MasterError, match=r"folder is a folder; name a file"):
            build_master(TABLE, tmp_path / name, "k")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_file_is_written(tmp_path: Path, there: bool) -> None:
    (tmp_path / "store").mkdir()
    target, link, second = tmp_path / "store" / "r.arrow", tmp_path / "link", tmp_path / "second"
    if there:
        build_master(TABLE.slice(0, 1), target, "k")
    link.symlink_to(Path("store") / "r.arrow")
    second.symlink_to(link)
    info = build_master(TABLE, second, "k")
    assert info.path == str(second)
    assert link.is_symlink()
    assert second.is_symlink()
    assert target.is_file()
    assert not target.is_symlink()
    assert rows_at(second) == rows_at(target) == 3
    assert sorted(p.name for p in (tmp_path / "store").iterdir()) == ["r.arrow"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "second", "store"]


def test_a_link_to_what_is_no_page_file_protects_it(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    (tmp_path / "link").symlink_to("diary.txt")
    with pytest.raises(MasterError, match=r"diary\.txt exists and is not a page file"):
        build_master(TABLE, tmp_path / "link", "k")
    assert (tmp_path / "diary.txt").read_text() == "dear diary"


def test_a_link_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere/r.arrow")
    with pytest.raises(MasterError, match=r"there is no folder .*nowhere"):
        build_master(TABLE, tmp_path / "link", "k")


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(MasterError, match="link"):
        build_master(TABLE, tmp_path / "link", "k")
    assert (tmp_path / "link").is_symlink()
