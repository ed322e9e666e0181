"""What one `enrich` means, in a form that goes to every task; and what is found out before any."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from penstock.errors import MasterError, PenstockError, SchemaError
from penstock.joins import JoinPlan, RootJoin, SemiStreamJoin
from penstock.joins.binding import Binding, On, OnMiss
from penstock.joins.plan import Clock
from penstock.keys import codes_of
from penstock.masters import Master
from penstock.masters.coarse_pages import CoarsePages, ReadUnits
from penstock.masters.databases.table import Walk
from penstock.masters.point_reads import can_look_up
from penstock.spark.auto import Chosen, choose
from penstock.spark.reaching import Reference
from penstock.spark.timed_reads import DEFAULT_RETRY_FOR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_UNIT_SHARE = 48
"""Where rows wait, a read is of so small a part of the budget: 1 MB of 50."""
_LOOKED_UP_UNIT = 128 * 1024


@dataclass(frozen=True)
class MasterShape:
    """What must be known of a master to tell what a join with it puts out."""

    schema: pa.Schema
    key: tuple[str, ...]
    hash_seed: int

    @classmethod
    def of(cls, master: Master) -> MasterShape:
        return cls(master.schema, tuple(master.key), master.hash_seed)


@dataclass(frozen=True)
class Enrichment:
    """Master, join and columns of one `enrich`: picklable, small, the same for every task."""

    master: Reference
    plan: JoinPlan
    on: On
    columns: tuple[str, ...] | None
    on_miss: OnMiss
    staleness: float | None = None
    """Seconds that an answer may be behind the master; None: the master's own."""
    retry_for: float = DEFAULT_RETRY_FOR
    """Seconds that the master's server may be away."""
    walked: Walk | None = None
    """The pages of a database's table as the driver found them, so that not every worker walks
    its index."""

    @property
    def identity(self) -> str:
        """Equal for enrichments that can share an operator and its cache."""
        asked = replace(self, walked=None)
        return hashlib.blake2b(pickle.dumps(asked), digest_size=16).hexdigest()

    def open(self, *, waits: bool) -> Master:
        """The master as the join sees it: several neighbouring pages as one.

        Where rows wait, they gather for each part of R that is read as one: few large ones are read
        less often. At once, few rows share a read, and what is read along only costs; but where
        rows are looked up one by one the join need not know the pages, and keeps less of each.
        """
        master = self.master.open(
            columns=self.columns, staleness=self.staleness, walked=self.walked
        )
        budget = self.plan.budget_bytes
        if self.plan.read_bytes is not None:
            return master  # the plan says what is one read
        try:
            if waits:
                return CoarsePages(master, ReadUnits(budget // _UNIT_SHARE, budget))
            if can_look_up(master, self.columns):
                return CoarsePages(master, ReadUnits(_LOOKED_UP_UNIT, budget))
            return master
        except BaseException:
            master.close()
            raise

    def bind(self, shape: MasterShape, stream_schema: pa.Schema) -> Binding:
        """The columns that go in and come out; raises what is wrong with them."""
        # A binding asks a master for its schema, key and seed only.
        known = cast(Master, shape)
        return Binding.resolve(known, stream_schema, self.on, self.on_miss, self.columns)

    def build(
        self, master: Master, stream_schema: pa.Schema, clock: Clock = time.time
    ) -> SemiStreamJoin:
        """The operator."""
        return self.plan.build(
            master,
            stream_schema,
            on=self.on,
            on_miss=self.on_miss,
            columns=self.columns,
            clock=clock,
        )

    def choose(self, master: Master, stream_schema: pa.Schema) -> Chosen:
        """What `auto` is on this master."""
        assert isinstance(self.plan, RootJoin)
        return choose(master, self.plan, stream_schema, self.on, self.columns)


@dataclass(frozen=True)
class Examined:
    """What opening the master told: its shape, key codes that cut it into equal parts, what `auto`
    chose for it, and where a table's pages begin.
    """

    shape: MasterShape
    cuts: tuple[int, ...] = ()
    chosen: Chosen | None = None
    walked: Walk | None = None


def examine(
    enrichment: Enrichment,
    stream_schema: pa.Schema,
    parts: int | None,
    *,
    automatic: bool = False,
) -> Examined:
    """Open the master, try to build the join, and tell; raises what is wrong.

    `parts` asks for the codes of the keys that begin its second, third … part of equal size;
    `automatic` for a plan with the budget and the `max_wait` of the enrichment's.
    """
    master = enrichment.open(waits=enrichment.plan.max_wait is not None)
    try:
        enrichment.build(master, stream_schema)
        cuts = _cuts(master, parts) if parts else ()
        chosen = enrichment.choose(master, stream_schema) if automatic else None
        own = master.wrapped if isinstance(master, CoarsePages) else master
        walked = getattr(own, "walked", None)
        return Examined(MasterShape.of(master), cuts, chosen, walked)
    finally:
        master.close()


def _cuts(master: Master, parts: int) -> tuple[int, ...]:
    pages = np.unique(np.arange(1, parts) * master.num_pages // parts)
    firsts = []
    for page in pages[pages > 0].tolist():
        rows = master.read([page], list(master.key)).slice(0, 1).combine_chunks()
        key = [rows.column(n).combine_chunks() for n in master.key]
        firsts.append(int(codes_of(key, master.hash_seed)[0]))
    return tuple(firsts)


def examine_on_executor(
    spark: SparkSession,
    enrichment: Enrichment,
    stream_schema: pa.Schema,
    parts: int | None,
    *,
    automatic: bool,
) -> Examined:
    """The same by a job of one task, for a master that only executors can open."""

    def ask(batches: object) -> object:
        try:
            answer: object = examine(enrichment, stream_schema, parts, automatic=automatic)
        except PenstockError as error:
            answer = error
        yield pa.record_batch({"answer": pa.array([pickle.dumps(answer)], pa.binary())})

    # One partition: its only task is the only one that is asked.
    rows = spark.range(0, 1, 1, 1).mapInArrow(ask, "answer binary").collect()  # type: ignore[arg-type]
    answer = pickle.loads(bytes(rows[0][0]))
    if isinstance(answer, MasterError):
        raise type(answer)(f"on an executor: {answer}") from answer
    if isinstance(answer, Exception):
        raise answer
    return cast(Examined, answer)


def given_shape(schema: pa.Schema, on: On) -> MasterShape:
    """The shape of a master whose schema the caller gives; its key is what the join is on."""
    if not isinstance(schema, pa.Schema):
        raise SchemaError(
            f"master_schema is a pyarrow.Schema, not {type(schema).__name__}; it is the schema "
            "attribute of the open master."
        )
    from penstock.joins.binding import _pairs

    key = tuple(theirs for _, theirs in _pairs(on, ()))
    return MasterShape(schema, key, 0)


def require_promised(
    promised: Sequence[pa.Field], key: Sequence[str], master: Master, name: str
) -> None:
    """Raise when a master, built again, no longer has what the query was defined with."""
    for field in promised:
        at = master.schema.get_field_index(field.name)
        have = master.schema.field(at).type if at >= 0 else None
        if have != field.type:
            now = "gone" if have is None else str(have)
            raise SchemaError(
                f"the column {field.name!r} of the master {name} was {field.type} when the query "
                f"was defined and is {now} in version {master.version}. Define the query again, or "
                "build the master with the columns that it had."
            )
    if set(master.key) != set(key):
        raise SchemaError(
            f"the key of the master {name} was ({', '.join(key)}) when the query was defined and "
            f"is ({', '.join(master.key)}) in version {master.version}. Define the query again."
        )
