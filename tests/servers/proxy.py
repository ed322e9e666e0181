"""A proxy between a client and its server that can drop or stall what passes."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Passes bytes between connections to its port and a port of this machine.

    `stall` lets connections be and passes nothing on; `drop` cuts them and takes no new ones.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._flowing = threading.Event()
        self._flowing.set()
        self._dropping = False
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._dropping:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                self._sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        self._flowing.clear()

    def drop(self) -> None:
        self._dropping = True
        self._flowing.set()
        self._cut()

    def resume(self) -> None:
        self._dropping = False
        self._flowing.set()

    def _cut(self) -> None:
        while self._sockets:
            with contextlib.suppress(OSError), self._sockets.pop() as end:
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
