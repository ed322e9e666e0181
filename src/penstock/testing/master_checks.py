"""Checks of a master alone: its pages hold every row once, and are found by every key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.keys import KeyMeeting, Keys, codes_of, is_exact
from penstock.masters.base import Master
from penstock.testing.cases import MakeMaster
from penstock.testing.key_kinds import KEY_KINDS, Key, KeyKind
from penstock.testing.oracle import assert_same_rows, counted, rows_of
from penstock.testing.refusals import refusal
from penstock.testing.tables import Tables, make_tables, master_of

MasterCheckFunction = Callable[[MakeMaster, KeyKind], None]


@dataclass(frozen=True)
class MasterCheck:
    """One check of a master, ready to run."""

    function: MasterCheckFunction
    make_master: MakeMaster
    kind: KeyKind

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"

    def __call__(self) -> None:
        self.function(self.make_master, self.kind)


def master_checks_for(
    make_master: MakeMaster, *, kinds: Iterable[KeyKind | str] = tuple(KEY_KINDS)
) -> Iterator[MasterCheck]:
    """Every check of masters that `make_master(table, key)` makes."""
    for kind in kinds:
        known = KEY_KINDS[kind] if isinstance(kind, str) else kind
        for function in MASTER_CHECKS:
            yield MasterCheck(function, make_master, known)


def pages_hold_every_row_once(make_master: MakeMaster, kind: KeyKind) -> None:
    """All pages together are R without its null keys, in order, and no key is on two pages."""
    tables = _tables(kind)
    master = make_master(tables.master, tables.on)
    pages = [_copied(master.read([page], master.schema.names)) for page in range(master.num_pages)]
    expected = counted([_without_nulls(tables)])
    assert_same_rows(pages, expected, "all pages together")
    assert master.num_rows == sum(page.num_rows for page in pages) == expected.total()
    assert master.max_page_rows == max(page.num_rows for page in pages)
    assert master.max_page_nbytes >= max(page.nbytes for page in pages)
    assert master.data_nbytes >= sum(page.num_rows for page in pages)
    keys = [set(rows_of(page.select(list(master.key)))) for page in pages]
    assert len(set().union(*keys)) == sum(map(len, keys)), "a key is on two pages"
    if is_exact([master.schema.field(n).type for n in master.key]):
        codes = [codes_of([page.column(n) for n in master.key]) for page in pages]
        assert (np.diff(np.concatenate(codes)) >= 0).all(), "the rows are not in the order of codes"


def keys_find_their_pages(make_master: MakeMaster, kind: KeyKind) -> None:
    """`page_of` names the page that has the key, and some page for keys that R does not have."""
    tables = _tables(kind)
    master = make_master(tables.master, tables.on)
    places = {}
    for page in range(master.num_pages):
        for key in rows_of(master.read([page], list(master.key))):
            places[key] = page
    keys = kind.keys(200)
    pages = _pages(master, kind, keys)
    assert ((pages >= 0) & (pages < max(master.num_pages, 1))).all()
    columns = kind.arrays(keys, "master")
    for key, page in zip(rows_of(pa.table(columns, names=kind.columns)), pages, strict=True):
        assert places.get(key, page) == page, f"{key} is on page {places[key]}, not {page}"
    assert len(_pages(master, kind, [None, keys[0], None])) == 3


def reads_of_several_pages(make_master: MakeMaster, kind: KeyKind) -> None:
    """A read of several pages is the pages one after the other, in the columns asked for.

    Rows of one key may lie in any order.
    """
    tables = _tables(kind)
    master = make_master(tables.master, tables.on)
    random = np.random.default_rng(3)
    for columns in (["price"], ["label", master.key[0]], list(master.schema.names)):
        for count in (1, 2, master.num_pages):
            pages = np.sort(random.choice(master.num_pages, count, replace=False))
            before = master.reads
            # Rows are taken at once: the next read may write over them.
            rows = rows_of(master.read(pages, columns))
            after = master.reads
            one_by_one = [rows_of(master.read([page], columns)) for page in pages.tolist()]
            assert Counter(rows) == Counter(row for page in one_by_one for row in page)
            assert after.io_reads > before.io_reads
            assert after.bytes_read > before.bytes_read
    key = list(master.key)
    together = rows_of(master.read(range(master.num_pages), key))
    assert together == [
        row for page in range(master.num_pages) for row in rows_of(master.read([page], key))
    ]
    assert master.read([], ["price"]).num_rows == 0
    sizes = [master.buffer_nbytes(n) for n in range(1, master.num_pages + 1)]
    assert sizes == sorted(sizes)
    assert sizes[0] >= master.max_page_nbytes


def look_ups_find_rows_of_keys(make_master: MakeMaster, kind: KeyKind) -> None:
    """`look_up` gives all rows of the keys that are asked for, and of no other."""
    tables = _tables(kind)
    master = make_master(tables.master, tables.on)
    wanted = [*kind.keys(90)[::3], None]
    columns = [*tables.on, "price"]
    found = master.look_up(_keys(master, kind, wanted), columns)
    asked = set(rows_of(pa.table(kind.arrays(wanted[:-1], "master"), names=tables.on)))
    width = len(tables.on)
    expected = Counter(r for r in rows_of(tables.master.select(columns)) if r[:width] in asked)
    assert_same_rows([found], expected, "look_up")


def wrong_reads_are_refused(make_master: MakeMaster, kind: KeyKind) -> None:
    """Pages and columns that are not there raise an error of ours, and the master goes on."""
    tables = _tables(kind)
    master = make_master(tables.master, tables.on)
    for pages, columns in (([master.num_pages], ["price"]), ([-1], ["price"]), ([0], ["prize"])):
        assert refusal(PenstockError, partial(master.read, pages, columns))
    assert master.read([0], ["price"]).num_rows > 0


def empty_masters(make_master: MakeMaster, kind: KeyKind) -> None:
    """R without rows, and R with nothing but null keys, answer every call."""
    for rows in ([], [None] * 5):
        table = master_of(kind, rows)
        master = make_master(table, kind.columns)
        assert master.num_rows == 0
        assert (_pages(master, kind, kind.keys(5)) == 0).all()
        for page in range(master.num_pages):
            assert master.read([page], ["price"]).num_rows == 0
        assert master.look_up(_keys(master, kind, kind.keys(5)), ["price"]).num_rows == 0


def refresh_without_news(make_master: MakeMaster, kind: KeyKind) -> None:
    """A master that has not changed says so, and stays what it is."""
    tables = _tables(kind)
    master = make_master(tables.master, tables.on)
    version, first = master.version, rows_of(master.read([0], ["price"]))
    assert master.refresh() is None
    assert master.version == version
    assert rows_of(master.read([0], ["price"])) == first
    master.close()


MASTER_CHECKS: tuple[MasterCheckFunction, ...] = (
    pages_hold_every_row_once,
    keys_find_their_pages,
    reads_of_several_pages,
    look_ups_find_rows_of_keys,
    wrong_reads_are_refused,
    empty_masters,
    refresh_without_news,
)


def _tables(kind: KeyKind) -> Tables:
    """R with null keys, and one key that has more rows than a page."""
    tables = make_tables(kind, keys=120, rows_per_key=3, stream_rows=0)
    more = master_of(kind, [None, *[kind.keys(4)[3]] * 70, None], seed=5)
    return Tables(tables.stream, pa.concat_tables([tables.master, more]), tables.on)


def _copied(rows: pa.Table) -> pa.RecordBatch:
    """The rows in memory of their own: the next read may write over what a read returned."""
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return pa.ipc.read_record_batch(batch.serialize(), rows.schema)


def _without_nulls(tables: Tables) -> pa.Table:
    rows = [i for i, row in enumerate(rows_of(tables.master.select(tables.on))) if None not in row]
    return tables.master.take(pa.array(rows, pa.int64()))


def _keys(master: Master, kind: KeyKind, keys: Sequence[Key | None]) -> Keys:
    types = tuple(master.schema.field(n).type for n in master.key)
    columns = kind.arrays(keys, "master")
    return KeyMeeting(tuple(c.type for c in columns), types, master.hash_seed).keys(columns)


def _pages(master: Master, kind: KeyKind, keys: Sequence[Key | None]) -> np.ndarray:
    return np.asarray(master.page_of(_keys(master, kind, keys)))
