"""Whether brokers of Kafka can be reached, before Spark waits for them for a minute."""

from __future__ import annotations

import socket

from penstock.errors import ServerAwayError
from penstock.pipeline.reading import PipelineError

_SECONDS = 5.0


def require_brokers(servers: str) -> None:
    """Raise unless one of the brokers takes a connection."""
    said = []
    for server in filter(None, (part.strip() for part in servers.split(","))):
        host, colon, port = server.rpartition(":")
        if not colon or not (port.isascii() and port.isdecimal() and int(port[:6]) < 65536):
            raise PipelineError(f"servers: {server!r} is no broker; write host:port.")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
        except UnicodeError as error:
            raise PipelineError(f"servers: {server!r} is no broker; write host:port.") from error
        except OSError as error:
            said.append(f"{server} ({error.strerror or error})")
        else:
            return
    raise ServerAwayError(f"no broker of Kafka can be reached: {', '.join(said) or 'none named'}.")
