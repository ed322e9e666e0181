"""Addresses of a lake's tables: a path or a URI, with the key behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from penstock.errors import OptionError
from penstock.masters.addresses import without_secrets
from penstock.masters.databases.address import is_database

OURS = ("key", "columns")
"""Parameters that are Penstock's; the others are the file system's."""
LOG = "_delta_log"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_DELTA = re.compile(r"delta(\+[A-Za-z][A-Za-z0-9+.-]*)?:", re.IGNORECASE)
_MAGIC = b"PAR1"


@dataclass(frozen=True, repr=False)
class LakeAddress:
    """A table of a lake: what an address says, apart."""

    kind: str
    """parquet or delta."""
    place: str
    """A path on this machine or the URI of a file system, without Penstock's parameters."""
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None

    @property
    def is_local(self) -> bool:
        return not _URI.match(self.place)

    @property
    def name(self) -> str:
        """The table's own name, for people and metrics."""
        if self.is_local:
            return Path(self.place).stem
        return Path(without_secrets(self.place).partition("?")[0]).stem

    @property
    def text(self) -> str:
        """The address, whole, for who opens it elsewhere."""
        given = {"key": self.key, "columns": self.columns or ()}
        ours = urlencode({n: ",".join(v) for n, v in given.items() if v}, quote_via=quote, safe=",")
        place = self.place
        if self.kind == "delta":
            place = f"delta://{quote(place)}" if self.is_local else f"delta+{place}"
        return place + (("&" if "?" in place else "?") + ours if ours else "")

    def __repr__(self) -> str:
        return f"LakeAddress({self.kind}, {str(self)!r})"

    def __str__(self) -> str:
        """The address without what is secret in it."""
        ours = f"?key={','.join(self.key)}" if self.key else ""
        return without_secrets(self.place).partition("?")[0] + ours

    def absolute(self) -> LakeAddress:
        """The same for a process that is in another folder, where the table is on this machine."""
        if not self.is_local or not Path(self.place).exists():
            return self
        return replace(self, place=str(Path(self.place).expanduser().absolute()))

    def require_key(self) -> tuple[str, ...]:
        if not self.key:
            kind = "Delta table" if self.kind == "delta" else "Parquet table"
            raise OptionError(
                f"{self} is a {kind}, which does not say what its key is. Write it behind the "
                f"address, {self}?key=COLUMN (several with commas), or pass key=…; the table must "
                "be sorted by it."
            )
        return self.key


def lake_address(
    given: str | os.PathLike[str],
    key: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> LakeAddress | None:
    """The table of a lake that an address means; None if it means something else.

    >>> lake_address("s3://bucket/products/?key=id&region=eu-west-1")
    LakeAddress(parquet, 's3://bucket/products/?key=id')
    >>> lake_address("delta:///data/products?key=shop,day").kind
    'delta'
    >>> lake_address("s3://bucket/products.arrow") is None
    True
    """
    text = str(os.fspath(given))
    if is_database(text):
        return None
    found = _parsed(text, key is not None)
    if found is None:
        return None
    names = found.key if key is None else (key,) if isinstance(key, str) else tuple(key)
    return replace(found, key=names, columns=found.columns if columns is None else tuple(columns))


def _parsed(text: str, has_key: bool) -> LakeAddress | None:
    delta = _DELTA.match(text)
    if delta is not None:
        rest = text[delta.end() :]
        if delta[1] is not None and delta[1].lower() != "+file":
            place, ours = _split(delta[1][1:] + ":" + rest)
            return _made("delta", place, ours)
        place, ours = _split(rest)
        return _made("delta", _local(place), ours)
    if _URI.match(text) and not text.lower().startswith("file://"):
        place, ours = _split(text)
        path = "".join(re.split(r"[?#]", place)[0].partition("://")[2].partition("/")[1:])
        is_table = ours or has_key or path.endswith("/") or path.lower().endswith(".parquet")
        return _made("parquet", place, ours) if is_table else None
    if text.lower().startswith("file://"):
        place, ours = _split(text)
        return _on_this_machine(_local(place), ours, has_key)
    whole = str(Path(text).expanduser())
    if "?" not in text or os.path.lexists(whole):
        return _on_this_machine(whole, {}, has_key)
    place, ours = _split(text)
    return _on_this_machine(str(Path(place).expanduser()), ours, has_key)


def _on_this_machine(place: str, ours: dict[str, str], has_key: bool) -> LakeAddress | None:
    path = Path(place)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
        if is_folder and (path / LOG).is_dir():
            return _made("delta", place, ours)
        is_table = path.suffix.lower() == ".parquet" and not is_folder
        if is_file:
            is_table = is_table or _begins_as_parquet(path)
        else:
            is_table = is_table or bool(ours) or has_key
        if is_folder and not is_table:
            is_table = any(path.rglob("*.parquet"))
    except OSError:  # whoever opens it says so
        return None
    return _made("parquet", place, ours) if is_table else None


def _begins_as_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _local(place: str) -> str:
    """The path of what follows the first word of an address: ///path, //path or path."""
    return (
        unquote(urlsplit(place).path)
        if place.startswith("file:")
        else unquote(place.removeprefix("//"))
    )


def _split(text: str) -> tuple[str, dict[str, str]]:
    """An address without Penstock's own parameters, and these."""
    place, mark, query = text.rpartition("?") if "?" in text else (text, "", "")
    pairs = parse_qsl(query, keep_blank_values=True)
    ours = {name: value for name, value in pairs if name in OURS}
    theirs = "&".join(p for p in query.split("&") if p.partition("=")[0] not in OURS)
    return (f"{place}{mark}{theirs}" if theirs else place), ours


def _made(kind: str, place: str, ours: dict[str, str]) -> LakeAddress:
    columns = ours.get("columns")
    return LakeAddress(
        kind,
        place,
        (ours["key"],) if ours.get("key") else (),
        None if columns is None else tuple(filter(None, map(str.strip, columns.split(",")))),
    )
