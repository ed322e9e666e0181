"""Addresses as they may be shown: a URI can carry a password or a key.

Passwords hold any character, also those that end the part of a URI that they are in. So what looks
like one is taken for one, up to the last `@`, whatever a strict reader of URIs would say.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from penstock.errors import OptionError

_HIDDEN = "***"
_DATABASES = ("postgres", "postgresql", "postgis", "pg", "psql", "mysql", "mysqlx", "mariadb",
              "oracle", "sqlserver", "mssql", "db2", "redshift", "cockroachdb", "snowflake",
              "clickhouse", "vertica", "teradata", "trino", "presto", "hive2", "hive", "duckdb",
              "sqlite", "mongodb", "redis", "rediss", "cassandra", "jdbc", "odbc")  # fmt: skip
_START = re.compile(r"([\s\"'<]*)((?:jdbc:)?[a-z][a-z0-9+.-]*):(/{0,2})", re.IGNORECASE)
_VALUE = re.compile(r"([?&][^=&]*=)([^&]*)")
_WORD = re.compile(
    r"((?:passw|passphrase|pwd|secret|token|credential)[\w.-]*\s*[=:]\s*)([^&]*)", re.IGNORECASE
)
_ENDS = re.compile(r"[/?#\\]")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::\d*)?")
_FREE = ("filter", "table", "key", "columns", "updated_at", "options", "user", "application_name")
"""Parameters of a database's address whose values may have an @."""
ADVICE = "A password never belongs into an address, since it would travel in plans and logs."


class _Apart(NamedTuple):
    """An address by its looks: what is before the host, and what follows."""

    blank: str
    scheme: str
    slashes: str
    authority: str
    tail: str

    @property
    def is_database(self) -> bool:
        """Whether it would be a database's, of any kind and however it is written."""
        words = re.split(r"[:+]", self.scheme.lower())
        return any(word in _DATABASES for word in words)

    @property
    def user(self) -> str:
        """Who asks, and the password if there is one: all that is before an `@`, to be safe."""
        whole = self.authority + self.tail
        user, at, _ = whole.rpartition("@")
        if at and (":" in unquote(self.authority) or (self.is_database and ":" in unquote(user))):
            return user
        return self.authority.rpartition("@")[0]


def _apart(text: str) -> _Apart | None:
    """The parts of what looks like an address; None of a path."""
    start = _START.match(text)
    if start is None:
        return None
    rest = text[start.end() :]
    end = _ENDS.search(rest)
    at = len(rest) if end is None else end.start()
    found = _Apart(start[1], start[2], start[3], rest[:at], rest[at:])
    return found if found.slashes == "//" or found.is_database else None


def looks_like_database(text: str) -> bool:
    """Whether a text would be the address of a database, well written or not.

    >>> [looks_like_database(t) for t in ("jdbc:mysql://h/d", " postgres:u@h", "a/r.arrow")]
    [True, True, False]
    """
    apart = _apart(text)
    return apart is not None and apart.is_database


def names_a_secret(text: str) -> bool:
    """Whether there is a word such as `password=` or `token:` in it, whatever follows."""
    return _WORD.search(unquote(text)) is not None


def refuse_secrets(text: str, instead: str = "") -> None:
    """OptionError if a text looks like an address with a password; what is told is the scheme.

    A file system's may have a key, `s3://key:secret@bucket`, if it is clear where that ends.
    """
    apart = _apart(text)
    if apart is None or apart.scheme.lower() == "file":
        return
    fault = _fault(apart)
    if fault is not None:
        said = f" {instead}" if instead else ""
        raise OptionError(f"the {apart.scheme} address {fault}. {ADVICE} Take it out.{said}")


def _fault(apart: _Apart) -> str | None:
    user, at, host = apart.authority.rpartition("@")
    path, _, query = apart.tail.partition("?")
    later = "@" in apart.tail
    password = "has a password, or an @ that is not before its host"
    if not apart.is_database:
        unclear = not _are_hosts(host) or (":" in user and "@" in path)
        return password if later and unclear else None
    if at and ":" in unquote(user):
        return password
    if later and (not _are_hosts(host) or "@" in path or "#" in apart.tail):
        return password
    pairs = [pair.partition("=") for pair in query.split("&")]
    if any("@" in name or ("@" in value and name not in _FREE) for name, _, value in pairs):
        return password
    # A filter is a condition on columns, which may be named so; its = is written %3D.
    texts = [value if name == "filter" else unquote(f"{name}={value}") for name, _, value in pairs]
    if any(map(_WORD.search, (*texts, unquote(path), apart.authority))):
        return "has a password, or a word such as password= or token="
    return None


def _are_hosts(text: str) -> bool:
    """Whether what is behind each host, if anything, is a colon and a number."""
    return all(_HOST.fullmatch(host) for host in text.split(","))


def without_secrets(uri: str) -> str:
    """The URI with who asks, and all values of its query, left out.

    >>> without_secrets("s3://key:secret@bucket/r.arrow?secret_key=top&region=x")
    's3://***@bucket/r.arrow?secret_key=***&region=***'
    >>> without_secrets("jdbc:mysql://me:pa/s#?s@host/shop")
    'jdbc:mysql://***@host/shop'
    """
    apart = _apart(uri)
    if apart is None:
        return uri
    start = f"{apart.blank}{apart.scheme}:{apart.slashes}"
    rest = apart.authority + apart.tail
    if apart.user:
        rest = f"{_HIDDEN}@{rest[len(apart.user) + 1 :]}"
    elif not _are_hosts(apart.authority):
        rest = f"{apart.authority.partition(':')[0]}:{_HIDDEN}{apart.tail}"
    return start + _WORD.sub(rf"\1{_HIDDEN}", _VALUE.sub(rf"\1{_HIDDEN}", rest))


def scrubbed(text: object, uri: str) -> str:
    """A text that somebody else wrote about the URI, without what is secret in it."""
    said = str(text).replace(uri, without_secrets(uri))
    apart = _apart(uri)
    user = "" if apart is None else apart.user
    values = [value for pattern in (_VALUE, _WORD) for _, value in pattern.findall(uri)]
    parts = {user, *user.split(":"), *values}
    parts |= {unquote(part) for part in parts}
    pieces = (piece for part in parts for piece in re.split(r"[:/?#@;=]", part))
    parts |= {piece for piece in pieces if len(piece) > 1}
    for part in sorted(filter(None, parts), key=len, reverse=True):
        said = said.replace(part, _HIDDEN)
    return said
