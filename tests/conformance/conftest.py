"""The masters that the conformance checks run on, each a way to make one of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from tests.masters.lake.tables import LAKES
from tests.servers.mariadb import MariadbMasters
from tests.servers.postgres import PostgresMasters
from tests.servers.tables import Opened

from penstock.masters import Master, MemoryMaster, PageFileMaster, build_master
from penstock.testing import CrippledMaster, every
from penstock.testing.cases import MakeMaster

PAGE_ROWS = 20
PAGE_BYTES = 700


class PageFiles:
    """Page files in one folder, all closed in the end."""

    def __init__(self, folder: Path, *, direct: bool) -> None:
        self._folder, self._direct = folder, direct
        self._numbers = count()
        self.opened: list[PageFileMaster] = []

    def __call__(self, table: pa.Table, key: Sequence[str]) -> Master:
        path = self._folder / f"{next(self._numbers)}.arrow"
        build_master(table, path, list(key), page_bytes=PAGE_BYTES)
        self.opened.append(PageFileMaster(path, direct=self._direct))
        return self.opened[-1]


def in_memory(table: pa.Table, key: Sequence[str]) -> Master:
    return MemoryMaster(table, key, page_rows=PAGE_ROWS)


def crippled(table: pa.Table, key: Sequence[str]) -> Master:
    """Every fifth read fails, every seventh is cut short, and all reads share one buffer."""
    return CrippledMaster(
        in_memory(table, key), failing=every(5), short=every(7), reuses_buffer=True
    )


@pytest.fixture
def maker_of(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], MakeMaster]]:
    """From a master's name to the way to make one."""
    files = {
        "page_file": PageFiles(tmp_path, direct=True),
        "page_file_buffered": PageFiles(tmp_path, direct=False),
    }
    makers: dict[str, MakeMaster] = {"memory": in_memory, "crippled": crippled, **files}
    opened: list[Opened] = []

    def maker(name: str) -> MakeMaster:
        if name in makers:
            return makers[name]
        made: Opened
        if name in LAKES:
            made = LAKES[name](tmp_path)
        else:
            servers = {"postgres": PostgresMasters, "mariadb": MariadbMasters}
            made = servers[name](request.getfixturevalue(name))
        opened.append(made)
        return made

    yield maker
    for masters in opened:
        masters.close()
    for maker in files.values():
        for master in maker.opened:
            master.close()
