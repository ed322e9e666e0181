"""The rivals by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.budget import Size, parse_bytes
from penstock.errors import OptionError, did_you_mean
from penstock.experiments.rivals.base import Rival, RivalSetting
from penstock.experiments.rivals.page_lookups import PageLookUps, lru_over_pages
from penstock.experiments.rivals.sqlite_lookups import SqliteLookUps, lru_over_sqlite
from penstock.experiments.rivals.with_arrow import ArrowRival
from penstock.experiments.rivals.with_duckdb import DuckdbRival
from penstock.experiments.rivals.with_polars import PolarsRival

RIVALS: dict[str, Callable[[RivalSetting], Rival]] = {
    "lru-pages": lru_over_pages,
    "lru-sqlite": lru_over_sqlite,
    "arrow-in-memory": ArrowRival,
    "polars": PolarsRival,
    "duckdb": DuckdbRival,
}
TITLES = {
    "lru-pages": PageLookUps.title,
    "lru-sqlite": SqliteLookUps.title,
    "arrow-in-memory": ArrowRival.title,
    "polars": PolarsRival.title,
    "duckdb": DuckdbRival.title,
}


def open_rival(
    name: str,
    *,
    master_path: str | os.PathLike[str],
    key: str,
    stream_key: str,
    budget_bytes: Size,
    folder: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    direct: bool = True,
) -> Rival:
    """The rival of this name, ready for the first batch; see `RivalSetting`.

    What it is compiled of, and R's copy in SQLite, are made at the first opening or the first
    batch, if they are not there.
    """
    if name not in RIVALS:
        raise OptionError(
            f"there is no rival {name!r}.{did_you_mean(name, RIVALS)} They are: "
            f"{', '.join(RIVALS)}."
        )
    setting = RivalSetting(
        master_path=Path(master_path),
        key=key,
        stream_key=stream_key,
        budget_bytes=parse_bytes(budget_bytes),
        folder=Path(folder),
        columns=None if columns is None else tuple(columns),
        direct=direct,
    )
    return RIVALS[name](setting)
