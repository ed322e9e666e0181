"""One join, timed, with everything that its counters say."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from numba.core.event import install_recorder

from penstock.bench.case import JoinCase
from penstock.bench.feed import Feed
from penstock.bench.resident import ResidentGrowth, core_wait
from penstock.bench.stopwatch import Stopwatch
from penstock.bench.waiting import WindowObserver
from penstock.budget import parse_bytes
from penstock.costs.choosing import auto_plan
from penstock.costs.key_rates import ZipfKeys
from penstock.errors import BudgetError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.names import named
from penstock.joins.plan import JoinPlan
from penstock.masters import Master, build_master, open_master
from penstock.streams import AbruptDrift

_WARM_UP = JoinCase(rows=6_000, stream=32_000, missing=0.05, page_bytes=16_384, batch_rows=1024)
_CHANGES = AbruptDrift(at=(12_000, 20_000, 28_000))
"""What is hot changes, so that caches also let go of rows."""
_WARM_UP_BUDGETS = ("300kB", "600kB")
"""A tight one and one with room: caches that grow are compiled for, too."""
_WARM_UP_READS = 2_000
"""No join needs as many but INLJ, which does nothing new after its first batch."""


def operator(
    name: str, case: JoinCase, master: Master, budget: int | None = None
) -> SemiStreamJoin:
    """The named join of the case's stream with this master."""
    return _built(plan_of(name, case, master, budget), case, master)


def plan_of(name: str, case: JoinCase, master: Master, budget: int | None = None) -> JoinPlan:
    """The named plan; `auto` is what the models choose for the case."""
    budget = budget or case.budget_bytes
    if name != "auto":
        return named(name, budget=budget, max_wait=case.max_wait, seed=case.seed)
    workload = case.workload()
    choice = auto_plan(
        master,
        workload.schema,
        on=workload.key,
        budget=budget,
        profile=ZipfKeys(case.skew, case.order, case.missing),
    )
    return replace(choice.plan, max_wait=case.max_wait, seed=case.seed)


def _built(plan: JoinPlan, case: JoinCase, master: Master) -> SemiStreamJoin:
    workload = case.workload()
    return plan.build(master, workload.schema, on=workload.key, on_miss="null")


def warm_up(name: str) -> None:
    """Run the join once on little data: what is compiled at first use is compiled then."""
    workload = replace(_WARM_UP.workload(), drift=_CHANGES)
    with tempfile.TemporaryDirectory(prefix="penstock-warm-up-") as folder:
        path = Path(folder) / "products.arrow"
        build_master(
            workload.master_batches(8192), path, workload.master_key, page_bytes=_WARM_UP.page_bytes
        )
        with open_master(path, direct=False) as master:
            for budget in map(parse_bytes, _WARM_UP_BUDGETS):
                join = _affordable(name, master, budget)
                for batch in workload.batches(_WARM_UP.stream, _WARM_UP.batch_rows):
                    for _ in join.push(batch):
                        pass
                    if join.stats.page_reads > _WARM_UP_READS:
                        break
                for _ in join.flush():
                    pass


def _affordable(name: str, master: Master, budget: int) -> SemiStreamJoin:
    """The join within this budget, or the next that it can do with."""
    try:
        return operator(name, _WARM_UP, master, budget)
    except BudgetError:
        if budget > master.data_nbytes * 8:
            raise
        return _affordable(name, master, 2 * budget)


def measure_join(name: str, case: JoinCase, path: str, feed: Feed) -> dict[str, Any]:
    """Push the stream through the join, which should be warm, then flush.

    `seconds` is the time of all pushes and the flush, `flush_seconds` that of the flush alone, and
    `rows_per_second` the rows pushed by the time of the pushes. The clock runs only inside the
    join; batches are there before, and output is dropped. Memory grows from before the master is
    opened and the join is built; it is looked at whenever output comes out. `compiled` says that
    the warm-up has missed something: time and memory are then those of a compiler, too.
    `core_wait_seconds` is time that other processes took from the core.
    """
    feed.prepare()
    with open_master(path, direct=case.direct) as master:
        plan = plan_of(name, case, master)
    memory = ResidentGrowth()
    with (
        install_recorder("numba:compile") as compiled,
        open_master(path, direct=case.direct) as master,
    ):
        join = _built(plan, case, master)
        watch = Stopwatch()
        waited_before = core_wait()
        observer = WindowObserver(join, watch)
        rows = 0
        for batch in feed.batches(case.batch_rows):
            watch.start()
            _drain(join.push(batch), watch, memory)
            rows += batch.num_rows
            feed.reached(rows)
            del batch  # with its chunk's last rows the chunk goes, before the next one comes
            if case.limit is not None and watch.seconds >= case.limit:
                break
        pushing = watch.seconds
        observer.flush_begins()
        watch.start()
        _drain(join.flush(), watch, memory)
        waited = core_wait()
        observer.detach()
        stats = join.stats
        result = stats.to_dict()
        result.update(observer.result())
        result.update(
            title=join.plan.title,
            seconds=watch.seconds,
            flush_seconds=watch.seconds - pushing,
            rows_per_second=stats.rows_in / pushing,
            core_wait_seconds=waited - (waited_before or 0.0) if waited is not None else None,
            rss_growth_bytes=memory.most,
            budget_bytes=join.plan.budget_bytes,
            direct=getattr(master, "direct", False),
            pages=master.num_pages,
            compiled=bool(compiled.buffer),
        )
    return result


def _drain(pieces: Iterator[pa.RecordBatch], watch: Stopwatch, memory: ResidentGrowth) -> None:
    """Take all output and drop it; the stopwatch runs when this is called, and is stopped after."""
    for _ in pieces:
        watch.stop()
        memory.sample()
        watch.start()
    watch.stop()
    memory.sample()
