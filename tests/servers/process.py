"""A server as a child process: an unprivileged user's, on a free port, gone when the tests end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

_PORTS = range(20_000, 32_000)
"""Below those that systems give to connections that go out, which could take the port of a server
that is not there yet, or is away for a while."""


def free_port() -> int:
    """A port at which nobody listens, and which is given once in the life of this process."""
    for port in _PORTS:
        # A port of UDP, held to the end, tells other test processes that its number is taken.
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.socket() as tried:
                tried.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        claim.detach()
        return port
    raise AssertionError(f"every port from {_PORTS[0]} to {_PORTS[-1]} is taken")


def unprivileged() -> dict[str, Any]:
    """How a child is started where these tests are root's, which servers refuse to be."""
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "group": "nogroup", "extra_groups": []}


class ServerProcess:
    """One server; `start` again after `stop` or `kill` finds its data as they were.

    What it keeps for a while is in `temporary`, a folder of its own: a server may remove there what
    it takes for leftovers, which would be another's in a folder that servers share.
    """

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"penstock-{name}-"))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        if os.geteuid() == 0:
            for folder in (self.folder, self.temporary):
                shutil.chown(folder, "nobody", "nogroup")
        self.port = free_port()
        self.log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def with_jars(self, name: str) -> Path:
        """A folder with what `make servers` fetched by this name, which may lie where an
        unprivileged user cannot look.
        """
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        own = os.environ.get(f"PENSTOCK_{name.upper()}")
        fetched = list(Path(own or Path(cache) / "penstock" / name).glob("*.jar"))
        assert fetched, f"the jars of the {name} are missing; `make servers` fetches them"
        folder = self.folder / "jars"
        folder.mkdir()
        for jar in fetched:
            (folder / jar.name).write_bytes(jar.read_bytes())
        return folder

    def run(self, *command: str) -> None:
        """Run a program of the server's to its end."""
        done = subprocess.run(command, capture_output=True, text=True, **self._how())
        assert done.returncode == 0, done.stdout + done.stderr

    def begin(self, command: list[str], ready: Callable[[], object]) -> None:
        """Start the server and wait until it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._how())
        give_up = time.monotonic() + 60
        while not _answers(ready):
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise AssertionError(self.log.read_text(errors="replace")[-3000:])
            time.sleep(0.05)

    def _how(self) -> dict[str, Any]:
        environment = {**os.environ, "TMPDIR": str(self.temporary)}
        return {"cwd": self.folder, "env": environment, **unprivileged()}

    def end(self, number: signal.Signals, *, with_children: bool = False) -> None:
        """Send the signal, and wait until the server is gone."""
        if self._process is None:
            return
        begun = psutil.Process(self._process.pid).children(recursive=True) if with_children else []
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        for child in begun:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.send_signal(number)
        self._process.wait(60)
        self._process = None

    def remove(self) -> None:
        self.end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Server:
    """What the servers of all kinds have: a process of their own, to stop, kill and remove."""

    stops_on = signal.SIGTERM

    def __init__(self, name: str) -> None:
        self._server = ServerProcess(name)

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def folder(self) -> Path:
        return self._server.folder

    def stop(self) -> None:
        """Stop at once, in order; connections are cut."""
        self._server.end(self.stops_on)

    def kill(self) -> None:
        """End it and all processes that it has begun, without a word."""
        self._server.end(signal.SIGKILL, with_children=True)

    def remove(self) -> None:
        self._server.remove()

    def connect_once(self) -> None:
        """Raises as long as nobody listens."""
        socket.create_connection(("127.0.0.1", self.port), timeout=1).close()


def _answers(ready: Callable[[], object]) -> bool:
    try:
        ready()
    except Exception:  # noqa: BLE001 - whatever a driver raises while nobody answers
        return False
    return True
