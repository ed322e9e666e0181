"""What people use instead of a semi-stream join gives the same rows, within what it may hold."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import (
    BudgetError,
    KeyTypeError,
    MissingPackageError,
    OptionError,
    SchemaError,
    StateError,
)
from penstock.experiments.rivals import RIVALS, TITLES, Rival, open_rival
from penstock.experiments.rivals.lru_cache import LruCache
from penstock.experiments.rivals.lru_entries import ABSENT, NEWEST, NONE
from penstock.streams import SalesStream
from penstock.testing.oracle import assert_same_rows, plain_join

CACHED = ("lru-pages", "lru-sqlite")
WORKLOAD = SalesStream(products=3_000, skew=0.8, missing=0.2)
STREAM_ROWS = 6_000


@pytest.fixture(scope="module")
def master_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("rivals"), WORKLOAD.master_batches(1024), "product_id")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


def built(folder: Path, rows: Any, key: str) -> Path:
    path = folder / "master.arrow"
    penstock.build_master(rows, path, key, page_bytes=8192)
    return path


def opened(name: str, path: Path, folder: Path, budget: int = 150_000, **options: Any) -> Rival:
    names = {"key": "product_id", "stream_key": "product_id", **options}
    return open_rival(name, master_path=path, budget_bytes=budget, folder=folder, **names)


def sales(with_nulls: bool = False) -> pa.Table:
    rows = pa.Table.from_batches([WORKLOAD.rows(0, STREAM_ROWS)])
    if not with_nulls:
        return rows
    mask = np.arange(STREAM_ROWS) % 7 == 3
    ids = pa.array(rows["product_id"].to_numpy(), mask=mask)
    return rows.set_column(0, "product_id", ids)


def in_batches(rows: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    (whole,) = rows.combine_chunks().to_batches()
    return (whole.slice(at, size) for at in range(0, whole.num_rows, size))


@pytest.mark.parametrize("with_nulls", [False, True], ids=["keys", "null-keys"])
@pytest.mark.parametrize("size", [61, 700, STREAM_ROWS])
@pytest.mark.parametrize("name", RIVALS)
def test_rows_are_those_of_the_plain_join(
    name: str, size: int, with_nulls: bool, master_path: Path, folder: Path
) -> None:
    stream = sales(with_nulls)
    rival = opened(name, master_path, folder)
    out = [rival.push(batch) for batch in in_batches(stream, size)]
    master = pa.Table.from_batches(WORKLOAD.master_batches(3_000))
    assert_same_rows(out, plain_join(stream, master, "product_id").rows, name)
    assert rival.counts()["rows_in"] == STREAM_ROWS
    rival.close()


@pytest.mark.parametrize("budget", [70_000, 150_000, 250_000])
@pytest.mark.parametrize("name", CACHED)
def test_a_cache_stays_within_the_budget_and_answers(
    name: str, budget: int, master_path: Path, folder: Path
) -> None:
    rival = opened(name, master_path, folder, budget)
    most = 0
    for batch in in_batches(sales(), 500):
        rival.push(batch)
        most = max(most, rival.counts()["held_bytes"])
    counts = rival.counts()
    assert budget * 0.8 < most <= budget
    assert 0 < counts["hits"] < STREAM_ROWS - counts["look_ups"] + 1
    assert counts["page_reads" if name == "lru-pages" else "statements"] > 0
    rival.close()


def test_more_bytes_answer_more(master_path: Path, folder: Path) -> None:
    hits = []
    for budget in (70_000, 150_000, 800_000):
        rival = opened("lru-pages", master_path, folder, budget)
        for batch in in_batches(sales(), 500):
            rival.push(batch)
        hits.append(rival.counts()["hits"])
        rival.close()
    assert hits[0] < hits[1] < hits[2]


def test_pages_read_are_those_of_the_missed_keys(master_path: Path, folder: Path) -> None:
    batch = next(in_batches(sales(), 1_000))
    keys = batch["product_id"].unique()
    with penstock.open_master(master_path) as master:
        pages = len(np.unique(master.page_of(keys)))
    rival = opened("lru-pages", master_path, folder, 2_000_000)
    rival.push(batch)
    first = rival.counts()
    assert first["look_ups"] == len(keys)
    assert first["page_reads"] == pages
    assert first["hits"] == 0
    rival.push(batch)  # missing keys are remembered, too
    assert rival.counts() == {**first, "rows_in": 2_000, "hits": 1_000}
    rival.close()


def test_one_statement_for_a_batch(master_path: Path, folder: Path) -> None:
    rival = opened("lru-sqlite", master_path, folder, 2_000_000)
    (batch,) = in_batches(sales(), STREAM_ROWS)
    for _ in range(3):
        rival.push(batch)
    assert rival.counts()["statements"] == 1
    rival.close()


@pytest.mark.parametrize("name", ["polars", "duckdb", "arrow-in-memory"])
def test_all_of_the_master_is_held(name: str, master_path: Path, folder: Path) -> None:
    rival = opened(name, master_path, folder)
    assert rival.counts()["held_bytes"] >= 3_000 * 112
    rival.close()


@pytest.mark.parametrize("name", RIVALS)
def test_an_empty_batch_first_and_other_names(name: str, master_path: Path, folder: Path) -> None:
    stream = sales().rename_columns(["sku", "quantity", "sold_at"])
    rival = opened(name, master_path, folder, stream_key="sku", columns=["price", "stock"])
    (whole,) = in_batches(stream, STREAM_ROWS)
    out = [rival.push(whole.slice(0, 0)), rival.push(whole)]
    assert [rows.num_rows for rows in out] == [0, STREAM_ROWS]
    assert out[0].schema == out[1].schema
    assert out[1].schema.names == ["sku", "quantity", "sold_at", "price", "stock"]
    rival.close()


def kinds_of_columns(rows: int) -> dict[str, Any]:
    """Columns with nulls of the types that slots can have."""
    every_third = np.arange(rows) % 3 == 0
    numbers = np.arange(rows)
    return {
        "small": pa.array(numbers % 100, pa.int8(), mask=every_third),
        "flag": pa.array((numbers % 2).astype(bool), mask=every_third),
        "half": pa.array(numbers / 2, pa.float32()),
        "day": pa.array(numbers, pa.int32(), mask=every_third).cast(pa.date32()),
        "at": pa.array(numbers * 1000, pa.timestamp("ms", "UTC"), mask=~every_third),
    }


EVEN = range(0, 8000, 2)
KEYS = {
    "int64": pa.array(EVEN, pa.int64()),
    "uint16": pa.array(EVEN, pa.uint16()),
    "uint64": pa.array(EVEN, pa.uint64()),
    "decimal": pa.array([Decimal(i) / 4 for i in EVEN], pa.decimal128(10, 2)),
    "date": pa.array([date.fromordinal(730_000 + i) for i in EVEN]),
}
INTEGERS_ONLY = [("arrow-in-memory", kind) for kind in ("decimal", "date")]


@pytest.mark.parametrize(
    ("name", "kind"),
    [(n, k) for n in RIVALS for k in KEYS if (n, k) not in INTEGERS_ONLY],
)
@pytest.mark.parametrize("budget", [160_000, 1_000_000])
def test_types_of_keys_and_columns(name: str, kind: str, budget: int, tmp_path: Path) -> None:
    keys = KEYS[kind]
    master = pa.table({"id": keys, **kinds_of_columns(len(keys))})
    path = built(tmp_path, master.to_batches(max_chunksize=512), "id")
    random = np.random.default_rng(5)
    stream = pa.table(
        {
            "id": pa.chunked_array([keys.take(pa.array(random.integers(0, len(keys), 5_000)))]),
            "n": range(5_000),
        }
    )
    stream = pa.concat_tables([stream, pa.table({"id": pa.nulls(3, keys.type), "n": [1, 2, 3]})])
    rival = opened(name, path, tmp_path, budget, key="id", stream_key="id")
    out = []
    for batch in in_batches(stream, 600):
        out.append(rival.push(batch))
        if name in CACHED:
            assert rival.counts()["held_bytes"] <= budget
    assert_same_rows(out, plain_join(stream, master, "id").rows, name)
    rival.close()


def test_the_copy_in_sqlite_is_made_once(master_path: Path, tmp_path: Path) -> None:
    opened("lru-sqlite", master_path, tmp_path).close()
    (copy,) = tmp_path.iterdir()
    made = copy.stat()
    opened("lru-sqlite", master_path, tmp_path).close()
    assert [(p, p.stat().st_ino) for p in tmp_path.iterdir()] == [(copy, made.st_ino)]


# -- the cache itself -------------------------------------------------------------------------


SCHEMA = pa.schema([("value", pa.int64()), ("small", pa.int16())])


def rows_for(codes: np.ndarray, with_nulls: bool) -> pa.RecordBatch:
    mask = (codes % 5 == 0) if with_nulls else None
    return pa.record_batch(
        [pa.array(codes * 3, mask=mask), pa.array(codes % 100, pa.int16())], SCHEMA
    )


def newest_first(cache: LruCache) -> list[int]:
    codes, _, older, _ = cache._entries
    found, at = [], int(cache._ends[NEWEST])
    while at != NONE:
        found.append(int(codes[at]))
        at = int(older[at])
    return found


@pytest.mark.parametrize("limit", [600, 5_000, 40_000])
@pytest.mark.parametrize("nulls_from", [1, 30, 1_000])
def test_what_is_held_is_what_was_used_last(limit: int, nulls_from: int) -> None:
    """Against a plain list of uses, while the share of missing keys comes and goes."""
    cache, random = LruCache(SCHEMA, limit), np.random.default_rng(3)
    uses: OrderedDict[int, int | None] = OrderedDict()
    for turn in range(120):
        codes = random.integers(0, 1000, random.integers(1, 80))
        probed = cache.probe(codes, None)
        known = np.sort(np.concatenate([probed.hits, probed.gone]))
        assert sorted([*known, *probed.unknown]) == list(range(len(codes)))
        for code in codes[known].tolist():
            uses.move_to_end(code)
        values, small = cache.take(probed.slots)
        held = codes[probed.hits].tolist()
        assert values.to_pylist() == [uses[code] for code in held]
        assert small.to_pylist() == [code % 100 for code in held]
        new = np.unique(codes[probed.unknown])
        rows = rows_for(new, with_nulls=turn >= nulls_from)
        missing_below = 1000 * (turn // 20 % 3) // 2
        cache.add(new, np.where(new < missing_below, ABSENT, np.arange(len(new))), rows)
        uses.update(zip(new.tolist(), rows["value"].to_pylist(), strict=True))
        assert cache.nbytes <= limit
        kept = newest_first(cache)
        assert kept == list(reversed(uses))[: len(kept)]
        for code in list(uses)[: len(uses) - len(kept)]:
            del uses[code]


def test_a_code_that_fits_nowhere_is_not_held() -> None:
    cache = LruCache(SCHEMA, 100)
    codes = np.arange(5)
    cache.add(codes, codes, rows_for(codes, False))
    assert len(cache) == 0


@pytest.mark.parametrize("kind", ["decimal", "date"])
def test_bisection_takes_integers(kind: str, tmp_path: Path) -> None:
    path = built(tmp_path, pa.table({"id": KEYS[kind], "v": EVEN}), "id")
    with pytest.raises(KeyTypeError, match="takes integers"):
        opened("arrow-in-memory", path, tmp_path, key="id")


# -- refusals -----------------------------------------------------------------------------------


def test_every_rival_has_a_title() -> None:
    assert list(TITLES) == list(RIVALS)


def test_an_unknown_rival(master_path: Path, folder: Path) -> None:
    with pytest.raises(OptionError, match="Did you mean 'lru-pages'"):
        opened("lru-page", master_path, folder)


@pytest.mark.parametrize("name", CACHED)
def test_a_budget_that_holds_no_rows(name: str, master_path: Path, folder: Path) -> None:
    with pytest.raises(BudgetError, match="or more"):
        opened(name, master_path, folder, 15_000)


@pytest.mark.parametrize("name", RIVALS)
def test_after_close(name: str, master_path: Path, folder: Path) -> None:
    rival = opened(name, master_path, folder)
    rival.close()
    rival.close()
    with pytest.raises(StateError, match="closed"):
        rival.push(WORKLOAD.rows(0, 5))


def test_another_key(master_path: Path, folder: Path) -> None:
    with pytest.raises(SchemaError, match="has the key"):
        opened("polars", master_path, folder, key="price")


def test_keys_of_two_types(master_path: Path, folder: Path) -> None:
    rival = opened("lru-pages", master_path, folder)
    with pytest.raises(KeyTypeError, match="one type"):
        rival.push(pa.record_batch({"product_id": pa.array([1], pa.int32())}))
    rival.close()


@pytest.mark.parametrize("name", [*CACHED, "arrow-in-memory"])
def test_keys_with_several_rows(name: str, tmp_path: Path) -> None:
    path = built(tmp_path, pa.table({"id": [1, 1, 2], "v": [1, 2, 3]}), "id")
    with pytest.raises(SchemaError, match=r"1 rows? of .* a row before them has"):
        opened(name, path, tmp_path, key="id")


@pytest.mark.parametrize("name", ["polars", "duckdb"])
def test_engines_join_keys_with_several_rows_and_texts(name: str, tmp_path: Path) -> None:
    master = pa.table({"id": [1, 1, 2], "v": ["a", "b", None]})
    path = built(tmp_path, master, "id")
    stream = pa.table({"id": [2, 1, 5]})
    rival = opened(name, path, tmp_path, key="id", stream_key="id")
    out = [rival.push(batch) for batch in stream.to_batches()]
    assert_same_rows(out, plain_join(stream, master, "id").rows)
    rival.close()


@pytest.mark.parametrize("name", CACHED)
def test_columns_that_slots_cannot_hold(name: str, tmp_path: Path) -> None:
    path = built(tmp_path, pa.table({"id": [1, 2], "v": ["a", "b"]}), "id")
    with pytest.raises(SchemaError, match="Choose others"):
        opened(name, path, tmp_path, key="id")


@pytest.mark.parametrize("name", ["polars", "duckdb"])
def test_a_package_that_is_missing(
    name: str, master_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=r"penstock\[experiments\]"):
        opened(name, master_path, folder)
