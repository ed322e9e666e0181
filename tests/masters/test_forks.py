"""A process forked while pages are being read goes on by itself, and disturbs nobody."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.masters import build_master

ROWS = 20_000

# A thread's read stays in flight until the parent lets it go; for the child, it never ends.
FORK_WHILE_READING = """
import os, sys, threading
import numpy as np
import pyarrow as pa
from pyarrow import fs
from penstock.joins.read_ahead import ReadAhead
from penstock.masters import PageFileMaster, stored_page_file

begun, go_on = threading.Event(), threading.Event()
go_on.set()

def held(read):
    def wait_first(*arguments):
        if threading.current_thread() is not threading.main_thread() and not go_on.is_set():
            begun.set()
            go_on.wait(30)
        return read(*arguments)
    return wait_first

os.preadv = held(os.preadv)
stored_page_file._Stored.read = held(stored_page_file._Stored.read)

path, kind, what = sys.argv[1:]
if kind == "stored":
    master = stored_page_file.StoredPageFileMaster(path, filesystem=fs.LocalFileSystem())
else:
    master = PageFileMaster(path)

pages = np.arange(0, master.num_pages, 5)
def rows_of(read):
    ids = [i for chunk in read.column("id").chunks for i in chunk.to_pylist()]
    return len(ids), sum(ids)

master.read(pages[:4], ["id"])  # a pool of threads that the child will not have
go_on.clear()
ahead = ReadAhead(master, ["id"])
if what == "ahead":
    ahead.begin(pages)
else:
    reading = threading.Thread(target=master.read, args=(pages, ["id"]))
    reading.start()
assert begun.wait(30)
child = os.fork()
if not child:
    go_on = threading.Event()
    go_on.set()
    try:
        read = ahead.read(pages) if what == "ahead" else master.read(pages, ["id"])
        print("child", *rows_of(read), flush=True)
        master.close()
    finally:
        os._exit(0)
os.waitpid(child, 0)
go_on.set()
print("parent", *rows_of(ahead.read(pages) if what == "ahead" else master.read(pages, ["id"])))
"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forks") / "r.arrow"
    table = pa.table({"id": range(ROWS), "v": range(ROWS)})
    build_master(table, path, "id", page_bytes=4096)
    return path


@pytest.mark.parametrize("what", ["read", "ahead"])
@pytest.mark.parametrize("kind", ["file", "stored"])
def test_forked_while_a_thread_reads(page_file: Path, kind: str, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK_WHILE_READING, str(page_file), kind, what],
        capture_output=True,
        text=True,
        timeout=50,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == ["child", "parent"], done.stderr
    assert lines[0][1:] == lines[1][1:]
    assert int(lines[0][1]) > ROWS // 8


def test_what_is_gone_is_not_renewed() -> None:
    program = """
    import gc, os
    from penstock.masters.forks import renew_after_fork

    class Thing:
        def __init__(self, name):
            self.name = name
        def after_fork(self):
            print("renewed", self.name, flush=True)

    kept, gone = Thing("kept"), Thing("gone")
    renew_after_fork(kept)
    renew_after_fork(gone)
    del gone
    gc.collect()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert done.stdout.split("\n") == ["renewed kept", ""]
