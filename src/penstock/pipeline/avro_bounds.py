"""What a schema of somebody else's may ask of a reader: bounds, so that no value takes for ever.

A record within itself goes as deep as its value says, and the decoder has no limit; an item that
takes no bytes is repeated as often as a count of eight bytes says.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from penstock.errors import SchemaError

_JSON_DEPTH = 300
_DEPTH = 60
_TYPES = 20_000
"""How many types a schema has, when each name is replaced by what it means."""
_STEPS_PER_BYTE = 200
_DIGITS = 1000


class _Extent(NamedTuple):
    types: int
    depth: int
    steps: int
    """Values that are read, not counting what is repeated."""
    least: int
    """Bytes that a value takes at least."""


def load(text: str, where: str) -> Any:
    """JSON that is not too deep; SchemaError of `where` else."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"{where} is no JSON: {error}.") from error
    except (RecursionError, ValueError) as error:
        raise SchemaError(f"{where} is no JSON that can be read: {type(error).__name__}.") from None
    level, depth = [found], 0
    while level := [one for one in level if isinstance(one, dict | list)]:
        level = [
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
        ]
        depth += 1
        if depth > _JSON_DEPTH:
            raise SchemaError(f"{where} is nested more than {_JSON_DEPTH} deep.")
    return found


def require_bounds(record: Any, where: str) -> None:
    """SchemaError of a parsed schema that is recursive, too deep or too large, or that has arrays
    whose items take no bytes, or next to none.
    """
    named = record["__named_schemas"]
    known: dict[str, _Extent] = {}

    def of_all(types: list[Any], at: list[str], above: tuple[str, ...]) -> list[_Extent]:
        return [of(t, place, above) for t, place in zip(types, at, strict=True)]

    def of_repeated(t: Any, at: str, above: tuple[str, ...], key: int) -> _Extent:
        item = of(t, f"{at}[]", above)
        if item.steps > _STEPS_PER_BYTE * (item.least + key):
            raise SchemaError(
                f"{where}: {at} repeats a type that takes {item.least} bytes, so that a value of a "
                "few bytes could be endless."
            )
        return _Extent(item.types + 1, item.depth + 1, 1, 1)

    def of_record(t: Any, at: str, above: tuple[str, ...]) -> _Extent:
        name = t["name"]
        if name in above:
            raise SchemaError(f"{where}: {at or name} is a record within itself.")
        if name not in known:
            places = [f"{at}.{f['name']}".lstrip(".") for f in t["fields"]]
            found = of_all([f["type"] for f in t["fields"]], places, (*above, name))
            known[name] = _Extent(
                1 + sum(one.types for one in found),
                1 + max((one.depth for one in found), default=0),
                1 + sum(one.steps for one in found),
                sum(one.least for one in found),
            )
        return known[name]

    def of(t: Any, at: str, above: tuple[str, ...]) -> _Extent:
        if isinstance(t, list):
            found = of_all(t, [at] * len(t), above)
            return _Extent(
                1 + sum(one.types for one in found),
                1 + max((one.depth for one in found), default=0),
                1 + max((one.steps for one in found), default=0),
                1 + min((one.least for one in found), default=0),
            )
        t = named.get(t, t) if isinstance(t, str) else t
        kind = t["type"] if isinstance(t, dict) else t
        if kind in ("record", "error"):
            return of_record(t, at, above)
        if kind == "array":
            return of_repeated(t["items"], at, above, 0)
        if kind == "map":
            return of_repeated(t["values"], at, above, 1)
        if isinstance(t, dict):
            _require_numbers(t, at, where)
        least = t["size"] if kind == "fixed" else int(kind != "null")
        return _Extent(1, 1, 1, least)

    whole = of(record, "", ())
    if whole.depth > _DEPTH:
        raise SchemaError(f"{where} has types {whole.depth} deep; {_DEPTH} is the most.")
    if whole.types > _TYPES:
        raise SchemaError(f"{where} has {whole.types:,} types; {_TYPES:,} is the most.")


def _require_numbers(t: dict[str, Any], at: str, where: str) -> None:
    most = {"size": 1 << 31, "precision": _DIGITS, "scale": _DIGITS}
    for name in most:
        said = t.get(name)
        is_used = name == "size" or t.get("logicalType") == "decimal"
        if said is None or not is_used:
            continue
        if not isinstance(said, int) or not 0 <= said <= most[name]:
            raise SchemaError(f"{where}: {at} has a {name} that is no number up to {most[name]:,}.")
