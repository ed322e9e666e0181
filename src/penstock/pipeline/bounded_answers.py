"""Answers by HTTP that come in time and are not too long, whatever the server does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from typing import Any
from urllib.error import HTTPError
from urllib.request import (
    BaseHandler,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from penstock.masters.databases.stall_guard import time_limit


class TooLongError(Exception):
    """An answer that has more bytes than it may."""


def ask(request: Request, seconds: float, total: float, most: int) -> bytes:
    """The answer to a request; each read of it may take some seconds, all together the total.

    Raises OSError (TimeoutError among them), HTTPException, TooLongError, and ValueError for a
    place that it was sent on to and that is none.
    """
    deadline = _Deadline()
    with deadline.in_force(total):
        try:
            with _opener(deadline).open(request, timeout=seconds) as answer:
                found: bytes = answer.read(most + 1)
                left = answer.length
        except (OSError, HTTPException, ValueError) as error:
            if deadline.is_over:
                raise _late(total) from error
            raise
        if deadline.is_over:
            raise _late(total)
    if len(found) > most:
        raise TooLongError
    if left:
        raise IncompleteRead(found, left)
    return found


def _late(total: float) -> TimeoutError:
    return TimeoutError(f"no whole answer within {total:g} s")


class _Deadline:
    """Ends connections when the time is over. Their sockets are held by a second descriptor, since
    TLS takes the first away.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[socket.socket] = []
        self.is_over = False

    @contextmanager
    def in_force(self, seconds: float) -> Iterator[None]:
        try:
            with time_limit(seconds, self._end):
                yield
        finally:
            with self._lock:
                for held in self._held:
                    held.close()
                self._held.clear()

    def connect(self, *args: Any, **options: Any) -> socket.socket:
        """As `socket.create_connection`."""
        if self.is_over:
            raise TimeoutError
        made = socket.create_connection(*args, **options)
        with self._lock:
            self._held.append(made.dup())
        if self.is_over:
            self._end()
        return made

    def _end(self) -> None:
        self.is_over = True
        with self._lock:
            for held in self._held:
                with suppress(OSError):
                    held.shutdown(socket.SHUT_RDWR)


class _Redirects(HTTPRedirectHandler):
    """To HTTP alone; what leads nowhere leaves nothing open."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not newurl.lower().startswith(("http://", "https://")):
            raise HTTPError(req.full_url, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage
    ) -> Any:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _opener(deadline: _Deadline) -> OpenerDirector:
    """Speaks HTTP and nothing else, wherever it is sent on to."""

    def watched(connection: HTTPConnection) -> HTTPConnection:
        connection._create_connection = deadline.connect  # type: ignore[attr-defined]
        return connection

    class Plain(HTTPHandler):
        def http_open(self, req: Request) -> HTTPResponse:
            return self.do_open(lambda *a, **k: watched(HTTPConnection(*a, **k)), req)

    class Secured(HTTPSHandler):
        def https_open(self, req: Request) -> HTTPResponse:
            return self.do_open(lambda *a, **k: watched(HTTPSConnection(*a, **k)), req)

    opener = OpenerDirector()
    handlers: list[BaseHandler] = [
        ProxyHandler(),
        UnknownHandler(),
        HTTPDefaultErrorHandler(),
        _Redirects(),
        HTTPErrorProcessor(),
        Plain(),
        Secured(),
    ]
    for handler in handlers:
        opener.add_handler(handler)
    return opener
