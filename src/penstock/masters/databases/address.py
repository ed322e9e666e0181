"""Where a table is: a server's URI with the table, its key and other things to know behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from penstock.durations import parse_duration
from penstock.errors import OptionError, did_you_mean
from penstock.masters.addresses import ADVICE, looks_like_database, refuse_secrets
from penstock.masters.databases.hosts import require_hosts

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
LIBPQ = ("host", "hostaddr", "port", "dbname", "user", "passfile", "require_auth",
         "channel_binding", "connect_timeout", "client_encoding", "options", "application_name",
         "fallback_application_name", "keepalives", "keepalives_idle", "keepalives_interval",
         "keepalives_count", "tcp_user_timeout", "replication", "gssencmode", "sslmode",
         "requiressl", "sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslkeylogfile",
         "sslcertmode", "sslrootcert", "sslcrl", "sslcrldir", "sslsni", "requirepeer",
         "ssl_min_protocol_version", "ssl_max_protocol_version", "min_protocol_version",
         "max_protocol_version", "krbsrvname", "gsslib", "gssdelegation", "service", "servicefile",
         "target_session_attrs", "load_balance_hosts", "ssl")  # fmt: skip
"""Parameters that PostgreSQL's driver has, as its version 18 documents them, but for secrets."""
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
        kind = SCHEMES.get(uri.partition("://")[0].lower())
        refuse_secrets(uri, _instead(kind))
        if kind is None:
            raise OptionError(
                f"this is no address of a server; there are {', '.join(sorted(SCHEMES))}. "
                "Write postgresql://user@host/database?table=shop.products&key=id"
            )
        if "#" in uri or "\0" in unquote(uri) or not uri.isprintable():
            raise OptionError(
                f"the {kind}:// address has a character that cannot be in one. Write # as %23."
            )
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise OptionError(
                f"the {kind}:// address has no host that can be; a number of IPv6 is written in "
                "brackets, [::1]."
            ) from None
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        _refuse_parameters(kind, pairs)
        require_hosts(kind, parts.netloc, pairs)
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


def refuse_odd_address(text: str) -> None:
    """OptionError of what looks like an address with a password, or like a database's and is none.

    It would be a path otherwise, which errors show.
    """
    if is_database(text):
        refuse_secrets(text, _instead(SCHEMES[text.partition("://")[0].lower()]))
        return
    refuse_secrets(text)
    if "://" in text:
        try:
            urlsplit(text)
        except ValueError:
            raise OptionError(
                "the address has a host that cannot be; brackets are for numbers of IPv6, [::1]."
            ) from None
    if looks_like_database(text):
        raise OptionError(
            "this looks like the address of a database, and is none that is known. Write "
            "postgresql://user@host/database?table=shop.products&key=id, or mysql://…, with "
            "nothing before it; a file whose name begins so is written ./name."
        )


def _instead(kind: str | None) -> str:
    if kind is None:
        return ""
    where = (
        "the environment (PGPASSWORD), ~/.pgpass, a file named by passfile=…, or a service"
        if kind == "postgresql"
        else "the environment (MYSQL_PWD) or an option file named by read_default_file=…"
    )
    return f"It is read from {where}, on each machine that connects."


def _refuse_parameters(kind: str, pairs: Sequence[tuple[str, str]]) -> None:
    secret = next((name for name, _ in pairs if _SECRET.search(name)), None)
    if secret is not None:
        raise OptionError(
            f"the {kind} address has a password in a parameter. {ADVICE} Take it out. "
            f"{_instead(kind)}"
        )
    known = (*OURS, *LIBPQ)
    unknown = next((n for n, _ in pairs if n not in known), None) if kind != "mysql" else None
    if unknown is not None:
        raise OptionError(
            f"the {kind}:// address has a parameter that neither Penstock nor the driver has."
            f"{did_you_mean(unknown, known)}"
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
