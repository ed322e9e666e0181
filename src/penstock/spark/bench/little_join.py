"""A join of a few rows: after it a worker has the libraries and compiled code that joins need."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from penstock.joins import RootJoin
from penstock.masters import build_master
from penstock.memory import give_back_freed
from penstock.spark.enrichment import Enrichment
from penstock.spark.reaching import reference
from penstock.streams import SalesStream

_SALES = SalesStream(products=20_000, seed=7)
_COLUMNS = ("product_key", "price", "vendor_id")


def build_little_master(path: Path) -> None:
    build_master(_SALES.master_table(), path, _SALES.key, page_bytes=8192)


def join_a_little(path: Path, *, waits: bool) -> None:
    """Join some thousand rows in this process, and keep nothing of it."""
    import_module(f"penstock.spark.{'waiting' if waits else 'at_once'}")
    plan = RootJoin(budget="1MB", max_wait="1h" if waits else None)
    enrichment = Enrichment(reference(path), plan, _SALES.key, _COLUMNS, "null")
    master = enrichment.open(waits=waits)
    try:
        join = enrichment.build(master, _SALES.schema)
        for number in range(8):
            for _ in join.push(_SALES.rows(number * 5000, (number + 1) * 5000)):
                pass
        for _ in join.flush():
            pass
    finally:
        master.close()
    give_back_freed()
