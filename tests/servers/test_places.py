"""What a server has for itself, while other tests run beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.servers.mariadb import MariadbServer
from tests.servers.process import ServerProcess, free_port

GIVEN = 3


def test_ports_are_given_once() -> None:
    """To this process, and to another that asks meanwhile."""
    own = [free_port() for _ in range(GIVEN)]
    program = f"from tests.servers.process import *; print(*[free_port() for _ in range({GIVEN})])"
    others = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len({*own, *map(int, others)}) == 2 * GIVEN


def test_files_of_a_while_lie_in_the_servers_folder(mariadb: MariadbServer) -> None:
    ((place,),) = mariadb.ask("SELECT @@tmpdir")
    temporary = Path(str(place))
    assert temporary.parent == mariadb.folder
    assert temporary.owner() == (mariadb.folder / "data").owner()


def test_nothing_is_left_of_a_server() -> None:
    server = ServerProcess("gone")
    server.run("sh", "-c", 'touch "$TMPDIR/kept"')
    assert [file.name for file in server.temporary.iterdir()] == ["kept"]
    server.remove()
    assert not server.folder.exists()
