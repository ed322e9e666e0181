"""Where a table is: a server's URI with the table, its key and other things to know behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from penstock.durations import parse_duration
from penstock.errors import OptionError, did_you_mean

SCHEMES = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
}
"""The first word of a URI, and the kind of server that it means."""

LISTS = ("key", "columns")
NUMBERS = ("page_rows",)
TIMES = ("staleness", "timeout")
SWITCHES = ("binlog",)
OURS = ("table", *LISTS, "filter", *NUMBERS, *TIMES, "updated_at", "publication", *SWITCHES)
"""Parameters that are Penstock's; the others are the driver's."""
_TIMEOUT = 60.0
ON_OR_OFF = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_SECRET = re.compile(r"pass(?!file)|pwd|secret|token", re.IGNORECASE)
_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def is_database(address: str) -> bool:
    """Whether an address is one of a database's table."""
    return address.partition("://")[0].lower() in SCHEMES and "://" in address


@dataclass(frozen=True)
class TableAddress:
    """A table of a server: what a URI says, apart. No password is ever part of it."""

    kind: str
    server: str
    """The URI without Penstock's own parameters, for the driver."""
    table: str | None
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, uri: str) -> TableAddress:
        """Take a URI apart; raises OptionError for a password in it."""
        parts = urlsplit(uri)
        kind = SCHEMES.get(parts.scheme.lower())
        if kind is None:
            raise OptionError(
                f"{parts.scheme}:// is no kind of server; there are {', '.join(sorted(SCHEMES))}."
            )
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        _refuse_secrets(kind, parts.password, pairs)
        ours = {name: value for name, value in pairs if name in OURS}
        theirs = [(name, value) for name, value in pairs if name not in OURS]
        server = urlunsplit(
            (kind, parts.netloc, parts.path, urlencode(theirs, quote_via=quote), "")
        )
        if "://" not in server:  # urlunsplit leaves out an empty host
            server = server.replace(":", "://", 1)
        table = ours.pop("table", None)
        return cls(kind, server, table, tuple(sorted(_typed(ours).items())))

    def with_options(self, options: Mapping[str, Any]) -> TableAddress:
        """The same with other options in the place of the URI's."""
        unknown = [name for name in options if name not in OURS]
        if unknown:
            raise OptionError(
                f"a database's master has no option {unknown[0]!r}; its options are: "
                f"{', '.join(OURS)}.{did_you_mean(unknown[0], OURS)}"
            )
        given = {name: value for name, value in options.items() if value is not None}
        table = given.pop("table", self.table)
        merged = {**dict(self.options), **_typed(given)}
        return TableAddress(self.kind, self.server, table, tuple(sorted(merged.items())))

    @property
    def parts(self) -> tuple[str, ...]:
        """The table's name, schema first where there is one."""
        if not self.table:
            raise OptionError(
                f"{self} names no table. Write it behind the server: "
                f"{self.kind}://user@host/database?table=shop.products&key=id"
            )
        return split_name(self.table)

    @property
    def wanted(self) -> dict[str, Any]:
        """What of the table is wanted, as a catalog is asked for it."""
        options = dict(self.options)
        return {
            "key": options.get("key", ()),
            "columns": options.get("columns"),
            "filtered": options.get("filter"),
        }

    @property
    def timeout(self) -> float:
        """Seconds that a statement may take."""
        return float(dict(self.options).get("timeout", _TIMEOUT))

    @property
    def name(self) -> str:
        """The table's own name, for people and metrics."""
        return self.parts[-1]

    def __str__(self) -> str:
        """The server and the table, and not who asks."""
        parts = urlsplit(self.server)
        host = parts.netloc.rpartition("@")[2] or "local"
        table = f" table {self.table}" if self.table else ""
        return f"{self.kind}://{host}{unquote(parts.path)}{table}"


def split_name(name: str) -> tuple[str, ...]:
    """The parts of a name; a part in quotation marks may have dots.

    >>> split_name("shop.products"), split_name('"my.shop"."Products"')
    (('shop', 'products'), ('my.shop', 'Products'))
    """
    found, at = [], 0
    while at <= len(name):
        match = _NAME.match(name, at)
        if match is None or (match.end() < len(name) and name[match.end()] != "."):
            raise OptionError(
                f"table={name!r} is no name of a table; write schema.table, and names with dots "
                'or quotation marks as "my.schema"."my table".'
            )
        found.append(match[1].replace('""', '"') if match[1] else match[2])
        at = match.end() + 1
    return tuple(found)


def _refuse_secrets(kind: str, password: str | None, pairs: Sequence[tuple[str, str]]) -> None:
    secret = next((name for name, _ in pairs if _SECRET.search(name)), None)
    if password is None and secret is None:
        return
    where = "the URI" if secret is None else f"the URI's parameter {secret!r}"
    instead = (
        "the environment (PGPASSWORD), ~/.pgpass, a file named by passfile=…, or a service"
        if kind == "postgresql"
        else "the environment (MYSQL_PWD) or an option file named by read_default_file=…"
    )
    raise OptionError(
        f"{where} has a password, which would travel in plans and logs. Take it out; it is read "
        f"from {instead}, on each machine that connects."
    )


def _typed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as their own types, whether they came from a URI or from a call."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name in LISTS:
            names = value.split(",") if isinstance(value, str) else list(value)
            found[name] = tuple(part.strip() for part in names if part.strip())
        elif name in TIMES:
            found[name] = parse_duration(value, name)
        elif name in NUMBERS:
            if not str(value).isdigit() or not int(value):
                raise OptionError.out_of_range(name, value, "a whole number from 1 on")
            found[name] = int(value)
        elif name in SWITCHES:
            if str(value).lower() not in ON_OR_OFF:
                raise OptionError.out_of_range(name, value, "yes or no")
            found[name] = ON_OR_OFF[str(value).lower()]
        else:
            found[name] = value
    return found
