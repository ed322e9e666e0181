"""A registry that sends nonsense, or too much, or too slowly: an error in words, soon."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.errors import MasterError, OptionError, ServerAwayError
from penstock.pipeline import schema_registry
from penstock.pipeline.schema_registry import PASSWORD, SchemaRegistry

END = b"\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d" + END
Answer = Callable[[socket.socket, threading.Event], None]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """One that answers whatever it is asked in this way."""
    listening, over = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                asked, _ = listening.accept()
            except OSError:
                return
            with asked:
                try:
                    asked.recv(65536)
                    answer(asked, over)
                except OSError:
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def sends(data: bytes) -> Answer:
    return lambda asked, over: asked.sendall(data)


def drips(first: bytes) -> Answer:
    def answer(asked: socket.socket, over: threading.Event) -> None:
        asked.sendall(first)
        while not over.wait(0.02):
            asked.sendall(b" ")

    return answer


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (sends(OK % 1000 + b"{"), ServerAwayError, "ends its answer too early"),
        (sends(OK % 1000), ServerAwayError, "ends its answer too early"),
        (sends(b""), ServerAwayError, "ends its answer too early|cannot be reached"),
        (
            sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked" + END + b"ff\r\n{"),
            ServerAwayError,
            "ends its answer too early",
        ),
        (sends(b"hello there" + END), MasterError, "no HTTP"),
        (sends(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + END), MasterError, "no HTTP"),
        (sends(OK % 4 + b"\xff\xfe\x00\x00"), MasterError, "no JSON"),
        (sends(OK % 200_000 + b"[" * 200_000), MasterError, "no JSON"),
        (sends(OK % 4 + b"null"), MasterError, "without a schema"),
        (sends(OK % (5 << 20) + b" " * (5 << 20)), MasterError, "more than 4,194,304 bytes"),
        (
            sends(b"HTTP/1.1 302 Found\r\nLocation: /schemas/ids/1\r\nContent-Length: 0" + END),
            MasterError,
            r"\(302\)",
        ),
        (
            sends(b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0" + END),
            MasterError,
            "is it a registry",
        ),
        (
            sends(b"HTTP/1.1 302 Found\r\nLocation: ftp://h/x\r\nContent-Length: 0" + END),
            MasterError,
            r"\(302\)",
        ),
        (drips(OK % 100_000), ServerAwayError, "no whole answer within 0.5 s"),
        (drips(b"HTTP/1.1 200 OK\r\nX:"), ServerAwayError, "no whole answer within 0.5 s"),
        (lambda asked, over: over.wait() and None, ServerAwayError, "no whole answer"),
    ],
)
def test_nonsense(
    answer: Answer, kind: type[MasterError], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_timed = "no whole" in said
    monkeypatch.setattr(schema_registry, "_TOTAL_SECONDS", 0.5 if is_timed else 20.0)
    with server(answer) as address, pytest.raises(kind, match=said) as told:
        SchemaRegistry(address).schema(1)
    assert type(told.value) is kind


@pytest.mark.parametrize(
    "address",
    [
        "http://h:abc",
        "http://h:99999",
        "http://[::1",
        "http://::1",
        "http://h/ x",
        "http://h\n/x",
        f"http://{'h' * 70}",
        "http://a..b",
        "http://a,b",
        "http://@",
    ],
)
def test_addresses_that_can_never_be(address: str) -> None:
    with pytest.raises(OptionError, match=r"^registry: "):
        SchemaRegistry(address)


@pytest.mark.parametrize(
    "address",
    [
        "http://u:pa/s3cret@127.0.0.1",
        "http://u:12/s3cret@127.0.0.1",
        "http://u:s3cret#x@127.0.0.1",
        "http://u:s3cret?x@127.0.0.1",
        "http://u:s3cret@@127.0.0.1",
        "http://u%3As3cret@127.0.0.1",
        "http://127.0.0.1/token=s3cret",
        " http://u:s3cret@127.0.0.1",
        "http:/u:s3cret@127.0.0.1",
        "http:u:s3cret@127.0.0.1",
        "http://u:s3cret",
    ],
)
def test_secrets_in_any_form(address: str) -> None:
    with pytest.raises(OptionError, match=f"{PASSWORD}|^registry: ") as told:
        SchemaRegistry(address)
    assert "s3cret" not in repr(told.value)
    assert told.value.__cause__ is None
