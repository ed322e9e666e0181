"""A server's binary log, event by event, from where it was when it was asked for."""

from __future__ import annotations

import random
import struct
import time
from typing import Any, NamedTuple

from penstock.errors import MasterError, ServerAwayError
from penstock.masters.databases.mysql_connection import MysqlConnection
from penstock.masters.databases.mysql_rows import raise_error

BUFFER_BYTES = 1 << 20
_COM_BINLOG_DUMP = 0x12
_HEADER = struct.Struct("<BIBIIIH")
"""What a packet of an event begins with: that it is none of an error, then the event's time, kind,
server, size, the position behind it, and flags."""
_BODY = 4 + _HEADER.size
_NAMED = _BODY + 8
"""Bytes by which a large event is told from others."""
_ROTATE, _FORMAT, _HEARTBEATS = 4, 15, (27, 41)
_LONGEST = 0xFFFFFF
_HEARTBEAT = 10 * 10**9
"""Nanoseconds after which the server sees that nobody listens any more."""
_PATIENCE = 3600
"""Seconds that the server is to wait for a worker that has nothing to ask."""
_OURS = ("SELECT CONCAT_WS(' ', @@hostname, @@port, @@server_id, @@datadir) AS server, "
         "CONNECTION_ID() AS id, @@GLOBAL.binlog_checksum AS checksum")  # fmt: skip
_SETTINGS = (
    "SET @master_binlog_checksum = @@GLOBAL.binlog_checksum",
    "SET @source_binlog_checksum = @@GLOBAL.binlog_checksum",
    "SET @mariadb_slave_capability = 4",
    f"SET @master_heartbeat_period = {_HEARTBEAT}, @source_heartbeat_period = {_HEARTBEAT}",
    f"SET SESSION net_write_timeout = {_PATIENCE}",
)


class LogEndedError(Exception):
    """The log cannot be followed from here on: what it would have told is not known."""


class Place(NamedTuple):
    """A position: which file, and how many bytes into it."""

    file: int
    at: int


class LogEvent(NamedTuple):
    """An event: its body lies between two places of the stream's buffer."""

    kind: int
    at: int
    end: int
    whole: bool
    """Whether all of it is there; of an event larger than the buffer, only its beginning is."""


def place_now(server: MysqlConnection) -> tuple[str, Place]:
    """The name of the log's last file, and where it ends."""
    found = server.ask(server.log_status).to_pylist()
    if not found:
        raise MasterError(f"{server.place} has no binary log; start the server with log_bin.")
    name, at = str(found[0]["File"]), int(found[0]["Position"])
    return name, Place(_number(name), at)


def _number(name: str) -> int:
    digits = name.rpartition(".")[2]
    return int(digits) if digits.isdecimal() else -1


class LogStream:
    """Follows the log by a connection of its own.

    The server sends what was written, as soon as it was; nothing is asked for again. Another
    connection, `asked`, tells how far the log is, so that it is known when all was read.
    """

    def __init__(self, server: MysqlConnection, asked: MysqlConnection) -> None:
        self._server, self._asked = server, asked
        self.data = bytearray(BUFFER_BYTES)
        self._view = memoryview(self.data)
        self._at = self._filled = 0
        self._socket: Any = None
        self._begin()

    def _begin(self) -> None:
        try:
            here = self._server.ask(_OURS).to_pylist()[0]
            self._session = self._asked.session()
            there = self._asked.ask(_OURS).to_pylist()[0]
            if here["server"] != there["server"]:
                raise MasterError(
                    f"{self._server.place}: two connections came to two servers, whose logs differ."
                    " binlog=yes needs the address of one server."
                )
            self._id, self._checksum = int(here["id"]), 4 * (here["checksum"] != "NONE")
            for setting in _SETTINGS:
                self._server.ask(setting)
            if self._server.is_mariadb:
                self._server.ask("SET SESSION max_statement_time = 0")
            name, self.place = place_now(self._server)
            if self.place.at >= 2**32:  # which cannot be asked for; the next file begins soon
                raise ServerAwayError(f"{self._server.place}: its log is in a file of over 4 GiB.")
            # Two servers of one number would end each other's stream.
            number = random.SystemRandom().randrange(2**31, 2**32)
            payload = struct.pack("<IHI", self.place.at, 0, number) + name.encode()
            self._socket = self._server.command(_COM_BINLOG_DUMP, payload)
            # The first event comes at once, or what keeps it from coming.
            self._first(time.monotonic() + self._server.timeout)
        except BaseException:
            self.close()
            raise

    def _first(self, deadline: float) -> None:
        try:
            self.next(deadline)
        except LogEndedError as error:
            raise ServerAwayError(f"{self._server.place}: {error}.") from error

    def next(self, deadline: float) -> LogEvent:
        """The next event, which must come in time; the one before is gone from the buffer."""
        self._need(5, deadline)
        length = int.from_bytes(self._view[self._at : self._at + 3], "little")
        whole = length < _LONGEST and 4 + length <= BUFFER_BYTES
        self._need(4 + length if whole else _NAMED, deadline)
        at = self._at
        if self.data[at + 4] != 0:
            self._raise_end(bytes(self._view[at + 4 : at + 4 + length]))
        if length < _HEADER.size:
            raise LogEndedError("the log's stream cannot be understood")
        _, _, kind, _, _, behind, _ = _HEADER.unpack_from(self.data, at + 4)
        if behind and kind not in _HEARTBEATS:
            # Positions are told in 32 bits; files may be longer, events never as long.
            file, place = self.place
            step = (behind - place) % 2**32
            if step >= 2**31:
                raise LogEndedError("the log's stream cannot be understood")
            self.place = Place(file, place + step)
        body = at + _BODY
        if not whole:
            self._at = at + _NAMED
            self._skip(length - (_NAMED - 4), length, deadline)
            return LogEvent(kind, body, at + _NAMED, False)
        self._at = at + 4 + length
        if kind == _FORMAT:  # a file's first event says whether the others have checksums
            self._checksum = 4 * (self.data[self._at - 5] == 1)
        end = self._at - self._checksum
        if kind == _ROTATE:
            self._rotate(bytes(self._view[body:end]))
        return LogEvent(kind, body, end, True)

    def _rotate(self, body: bytes) -> None:
        """Go on with the file that is named."""
        file = _number(body[8:].decode(errors="replace"))
        if file - self.place.file not in (0, 1):
            raise LogEndedError("the log's stream cannot be understood")
        self.place = Place(file, int.from_bytes(body[:8], "little"))

    def _raise_end(self, packet: bytes) -> None:
        from pymysql.err import MySQLError

        if packet[0] != 0xFF:
            raise LogEndedError("the server ended the log's stream")
        try:
            raise_error(packet)
        except MySQLError as error:
            raise self._server.told(error) from error

    def _need(self, count: int, deadline: float) -> None:
        """Wait until so many bytes that were not read yet are in the buffer."""
        if self._at + count > BUFFER_BYTES:
            rest = self._filled - self._at
            self.data[:rest] = self.data[self._at : self._filled]
            self._at, self._filled = 0, rest
        while self._filled < self._at + count:
            self._filled += self._receive(self._view[self._filled :], deadline)

    def _skip(self, rest: int, length: int, deadline: float) -> None:
        """Read past the rest of an event; a packet of the greatest length is not its last.

        The event's beginning stays where it is.
        """
        scratch = memoryview(bytearray(1 << 16))
        while True:
            held = min(rest, self._filled - self._at)
            self._at += held
            rest -= held
            while rest:
                rest -= self._receive(scratch[: min(rest, len(scratch))], deadline)
            if length < _LONGEST:
                return
            head = bytearray(self._view[self._at : min(self._at + 4, self._filled)])
            self._at += len(head)
            while len(head) < 4:
                part = memoryview(bytearray(4 - len(head)))
                head += part[: self._receive(part, deadline)]
            rest = length = int.from_bytes(head[:3], "little")

    def _receive(self, into: memoryview, deadline: float) -> int:
        left = deadline - time.monotonic()
        if left <= 0:
            raise LogEndedError("the log was not read to its end in time")
        try:
            self._socket.settimeout(left)
            count = int(self._socket.recv_into(into))
        except OSError as error:
            raise LogEndedError(f"the log's stream was lost ({error})") from error
        if not count:
            raise LogEndedError("the log's stream was lost")
        return count

    def after_fork(self) -> None:
        """The stream is the other process's: here only its socket is let go."""
        self._server.after_fork()

    def close(self) -> None:
        """End the stream, and the server's side of it, which would only see so by and by."""
        self._server.after_fork()
        if self._socket is not None:
            self._socket = None
            self._asked.end_other(self._id, self._session)
