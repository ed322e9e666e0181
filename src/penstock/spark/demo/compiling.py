"""Compiles what Spark's workers will need, while Spark starts."""

from __future__ import annotations

from dataclasses import replace

from penstock.joins import RootJoin
from penstock.masters import build_master, open_master
from penstock.spark.demo.place import Place
from penstock.spark.demo.plan import ADDED, PAGE_BYTES, DemoPlan

_PRODUCTS, _SALES, _PUSHED = 20_000, 40_000, 5_000
_SMALL_BUDGET = 600_000


def compile_join(plan: DemoPlan, place: Place) -> None:
    """Join a few rows: the compiler keeps what it makes on disk, where all workers find it.

    The first run after an installation takes a while; it would be as long in each worker.
    """
    workload = replace(plan.workload, products=_PRODUCTS)
    path = place.spark / "few.arrow"
    build_master(workload.master_table(), path, "product_id", page_bytes=PAGE_BYTES)
    sales = workload.rows(0, _SALES)
    for budget in (_SMALL_BUDGET, plan.worker_budget):  # R fits one, and not the other
        with open_master(path) as master:
            join = RootJoin(budget=budget, pack=True).build(
                master, sales.schema, on="product_id", columns=list(ADDED)
            )
            for start in range(0, _SALES, _PUSHED):
                for _ in join.push(sales.slice(start, _PUSHED)):
                    pass
            for _ in join.flush():
                pass
