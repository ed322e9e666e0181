"""What can be a server: a name or a number of the network, and a port."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from penstock.errors import OptionError

_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)
_LABEL, _NAME = 63, 253


def require_hosts(kind: str, netloc: str, pairs: Sequence[tuple[str, str]]) -> None:
    """OptionError of what can never be a server. A port is not told: it may be half a password."""
    listed = netloc.rpartition("@")[2].split(",")
    if kind != "postgresql" and len(listed) > 1:
        raise OptionError(f"the {kind}:// address has commas; there is one host in it.")
    for host in listed:
        found = _HOST.fullmatch(host)
        if found is None:
            raise OptionError(
                f"the {kind}:// address has no host that can be: a number of IPv6 is written in "
                "brackets, [::1], and before a port there is one colon."
            )
        _require_name(kind, unquote(found[1]).strip("[]"))
        _require_port(kind, found[2])
    for name, value in pairs:
        for part in value.split(","):
            if name == "host":
                _require_name(kind, part)
            elif name == "port":
                _require_port(kind, part)


def _require_name(kind: str, name: str) -> None:
    if name.startswith(("/", "@")):  # a socket's folder
        return
    longest = max(map(len, name.split(".")))
    if longest > _LABEL or len(name) > _NAME:
        raise OptionError(
            f"the {kind}:// address has a host of {len(name)} characters, {longest} between two "
            f"dots; there can be {_NAME} and {_LABEL}."
        )
    try:
        name.encode("idna")
    except UnicodeError:
        raise OptionError(f"the {kind}:// address has a host that is no name.") from None
    if any(c.isspace() or not c.isprintable() for c in name):
        raise OptionError(f"the {kind}:// address has a host with blanks in it.")


def _require_port(kind: str, port: str | None) -> None:
    if not port:
        return
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise OptionError(
            f"the {kind}:// address has a port that is no number from 1 to 65535. Behind a host "
            "there is nothing but a colon and the port."
        )
