"""Brokers that are there, and those that are not."""

from __future__ import annotations

import socket

import pytest
from tests.servers.process import free_port

from penstock.errors import ServerAwayError
from penstock.pipeline.brokers import require_brokers
from penstock.pipeline.reading import PipelineError


def test_one_of_them_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        require_brokers(f"127.0.0.1:{free_port()}, 127.0.0.1:{port}")


def test_none_is_there() -> None:
    port = free_port()
    with pytest.raises(ServerAwayError, match=rf"127\.0\.0\.1:{port} \(.*refused"):
        require_brokers(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    "server", ["kafka", "127.0.0.1:²", "127.0.0.1:99999", "127.0.0.1:", f"{'a' * 70}:9092"]
)
def test_what_is_no_broker(server: str) -> None:
    with pytest.raises(PipelineError, match=f"'{server}' is no broker; write host:port"):
        require_brokers(server)
