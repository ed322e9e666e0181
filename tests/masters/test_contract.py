"""What every master promises, asked of each: the page file and the one in memory."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import KeyTypeError, MasterError, SchemaError, StateError
from penstock.keys import KeyMeeting, Keys, codes_of
from penstock.masters import Master, MemoryMaster, PageFileMaster, build_master
from penstock.memory import in_one_piece

Make = Callable[[pa.Table, Any], Any]


@pytest.fixture(params=["page_file", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a master of small pages of a table."""

    def page_file(table: pa.Table, key: Any) -> PageFileMaster:
        build_master(table, tmp_path / "r.arrow", key, page_bytes=512)
        return PageFileMaster(tmp_path / "r.arrow")

    def memory(table: pa.Table, key: Any) -> MemoryMaster:
        return MemoryMaster(table, key, page_rows=20)

    return page_file if request.param == "page_file" else memory


ROWS = 300
TABLES: dict[str, tuple[pa.Table, list[str]]] = {
    "integer": (pa.table({"k": [(i * 37) % ROWS - 50 for i in range(ROWS)]}), ["k"]),
    "unsigned": (
        pa.table({"k": pa.array([2**64 - 1 - i * 10**16 for i in range(ROWS)], pa.uint64())}),
        ["k"],
    ),
    "string": (pa.table({"k": [f"schlüssel {i}" for i in range(ROWS - 1)] + [""]}), ["k"]),
    "large string": (
        pa.table({"k": pa.array([f"key {i}" for i in range(ROWS)], pa.large_string())}),
        ["k"],
    ),
    "binary": (pa.table({"k": [i.to_bytes(3, "big") for i in range(ROWS)]}), ["k"]),
    "fixed binary": (
        pa.table({"k": pa.array([i.to_bytes(3, "big") for i in range(ROWS)], pa.binary(3))}),
        ["k"],
    ),
    "decimal": (
        pa.table({"k": pa.array([Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(9, 2))}),
        ["k"],
    ),
    "wide decimal": (
        pa.table({"k": pa.array([Decimal(i) * 10**25 for i in range(ROWS)], pa.decimal128(38, 2))}),
        ["k"],
    ),
    "date": (pa.table({"k": [dt.date(2000, 1, 1) + dt.timedelta(i) for i in range(ROWS)]}), ["k"]),
    "timestamp": (
        pa.table({"k": [dt.datetime(1969, 12, 31) + dt.timedelta(hours=i) for i in range(ROWS)]}),
        ["k"],
    ),
    "composite": (
        pa.table({"k": [i % 20 for i in range(ROWS)], "l": [f"{i // 20}" for i in range(ROWS)]}),
        ["k", "l"],
    ),
    "dictionary": (
        pa.table({"k": pa.array([f"key {i}" for i in range(ROWS)]).dictionary_encode()}),
        ["k"],
    ),
    "duplicates": (pa.table({"k": [i * i % 40 for i in range(ROWS)]}), ["k"]),
}


@pytest.fixture(params=TABLES)
def case(request: pytest.FixtureRequest) -> tuple[pa.Table, list[str]]:
    table, key = TABLES[request.param]
    return table.append_column("place", pa.array(range(ROWS))), key


def rows_by_place(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return sorted(batch.to_pylist(), key=lambda row: row["place"])


def test_is_a_master(make: Make, products: pa.Table) -> None:
    with make(products, "id") as master:
        assert isinstance(master, Master)
        assert master.key == ("id",)
        assert master.num_rows == 5_000
        assert master.schema.names == products.schema.names


def test_all_pages_are_all_rows_in_order(make: Make, case: tuple[pa.Table, list[str]]) -> None:
    table, key = case
    with make(table, key) as master:
        read = master.read(range(master.num_pages), master.schema.names)
        assert isinstance(read, pa.Table)
        assert all(1 <= c.num_chunks <= master.num_pages for c in read.columns)
        rows = in_one_piece(read)
        assert rows_by_place(rows) == table.to_pylist()
        codes = codes_of([rows.column(k) for k in key], master.hash_seed)
        assert (codes[1:] >= codes[:-1]).all()
        same = codes[1:] == codes[:-1]
        places = rows.column("place").to_numpy()
        assert (places[1:][same] > places[:-1][same]).all(), "rows of one key keep their order"
        assert not any(pa.types.is_dictionary(f.type) for f in master.schema)


def test_every_key_is_on_its_page_alone(make: Make, case: tuple[pa.Table, list[str]]) -> None:
    table, key = case
    with make(table, key) as master:
        assert master.num_pages > 3
        for page in range(master.num_pages):
            rows = in_one_piece(master.read([page], key))
            assert 0 < rows.num_rows <= master.max_page_rows
            assert rows.nbytes <= master.max_page_nbytes
            columns = [rows.column(k) for k in key]
            found = master.page_of(Keys(columns, None, master.hash_seed))
            assert found.tolist() == [page] * rows.num_rows


def test_look_up_finds_all_rows_of_the_keys(make: Make, case: tuple[pa.Table, list[str]]) -> None:
    table, key = case
    wanted = table.slice(100, 30)
    meeting = KeyMeeting(
        tuple(table.field(k).type for k in key),
        tuple(make(table, key).schema.field(k).type for k in key),
    )
    keys = meeting.keys([wanted.column(k).combine_chunks() for k in key])
    asked = {tuple(row[k] for k in key) for row in wanted.to_pylist()}
    expected = [row for row in table.to_pylist() if tuple(row[k] for k in key) in asked]
    with make(table, key) as master:
        found = master.look_up(keys, ["place", *key])
        assert found.schema.names == ["place", *key]
        assert rows_by_place(found) == expected
        assert master.look_up(keys, ["place"]).schema.names == ["place"]


def test_look_up_of_what_is_not_there(make: Make) -> None:
    table = pa.table({"k": ["a", "b"], "v": [1, 2]})
    with make(table, "k") as master:
        assert master.look_up(pa.array(["x", None, ""]), ["v"]).num_rows == 0
        assert master.look_up(pa.array([], pa.string()), ["v"]).num_rows == 0
        found = master.look_up(pa.array(["b", None, "b", "x"]), ["v"])
        assert found.to_pydict() == {"v": [2]}


def test_equal_codes_are_not_yet_equal_keys(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hash that gives every key the same code, look-ups must still tell keys apart."""

    def one_code(columns: Any, seed: int = 0) -> Any:
        return np.zeros(len(columns[0]), dtype=np.int64)

    for module in ("keys", "masters.matching", "masters.memory", "masters.sorted_runs"):
        monkeypatch.setattr(f"penstock.{module}.codes_of", one_code)
    table = pa.table({"k": [f"{i % 10}" for i in range(100)], "place": range(100)})
    with make(table, "k") as master:
        assert master.num_pages == 1
        found = master.look_up(pa.array(["3", "7", "nine", "3"]), ["place"])
        assert sorted(found.column("place").to_pylist()) == sorted(
            [*range(3, 100, 10), *range(7, 100, 10)]
        )


def test_keys_come_in_other_types(make: Make) -> None:
    table = pa.table({"k": pa.array(range(1000), pa.int32()), "v": range(1000)})
    with make(table, "k") as master:
        asked = pa.array([5, 2**40, None, 999], pa.int64())
        assert sorted(master.look_up(asked, ["v"]).column("v").to_pylist()) == [5, 999]
        pages = master.page_of(asked)
        assert pages[0] == 0
        assert pages[3] == master.num_pages - 1
        with pytest.raises(KeyTypeError, match="cannot meet"):
            master.page_of(pa.array(["5"]))
        with pytest.raises(KeyTypeError, match="names 2 key columns"):
            master.page_of(pa.array([{"a": 1, "b": 2}]))


def test_a_composite_key_as_a_struct(make: Make) -> None:
    table, key = TABLES["composite"]
    with make(table.append_column("place", pa.array(range(ROWS))), key) as master:
        asked = pa.array([{"k": 3, "l": "2"}, {"k": 3, "l": "99"}, {"k": None, "l": "2"}])
        assert master.look_up(asked, ["place"]).column("place").to_pylist() == [43]


def test_below_the_first_fence_and_above_the_last(make: Make) -> None:
    with make(pa.table({"k": range(0, 2_000, 2)}), "k") as master:
        asked = pa.array([-(2**63), -1, 0, 1998, 1999, 2**63 - 1])
        last = master.num_pages - 1
        assert master.page_of(asked).tolist() == [0, 0, 0, last, last, last]


def test_columns_in_any_order_and_number(make: Make, products: pa.Table) -> None:
    with make(products, "id") as master:
        whole = master.read([0, 1, 3], products.schema.names)
        for columns in (["name"], ["sold", "id"], ["price", "name", "sold", "id"]):
            part = master.read([0, 1, 3], columns)
            assert part.schema.names == columns
            assert part.equals(whole.select(columns))
        with pytest.raises(SchemaError, match=r"no column 'nam'.*Did you mean 'name'"):
            master.read([0], ["nam"])
        with pytest.raises(SchemaError, match="no column 'nam'"):
            master.look_up(pa.array([1]), ["nam"])
        with pytest.raises(SchemaError, match=r"write \['name'\]"):
            master.read([0], "name")


def test_pages_that_are_asked_for_wrongly(make: Make, products: pa.Table) -> None:
    with make(products, "id") as master:
        assert master.read([], ["id"]).num_rows == 0
        assert master.read(np.array([], dtype=np.int64), ["id"]).schema.names == ["id"]
        for pages in ([-1], [master.num_pages], [0, 10**6]):
            with pytest.raises(MasterError, match="there are pages 0 to"):
                master.read(pages, ["id"])
        for pages in ([3, 2], [1, 1]):
            with pytest.raises(MasterError, match="must ascend"):
                master.read(pages, ["id"])


def test_reads_are_counted(make: Make, products: pa.Table) -> None:
    with make(products, "id") as master:
        assert master.num_pages > 100
        assert (master.reads.io_reads, master.reads.bytes_read) == (0, 0)
        master.read([0, 1, 2], ["id"])
        assert master.reads.io_reads == 1
        before = master.reads
        rows = master.read([0, 1, 2], products.schema.names)
        assert master.reads.io_reads == before.io_reads + 1
        assert master.reads.bytes_read - before.bytes_read >= rows.nbytes - 8


def test_an_empty_master_answers(make: Make) -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    with make(schema.empty_table(), "k") as master:
        assert (master.num_rows, master.num_pages, master.max_page_rows) == (0, 1, 0)
        assert master.page_of(pa.array(["a", None])).tolist() == [0, 0]
        assert master.read([0], ["v", "k"]).to_pydict() == {"v": [], "k": []}
        assert master.look_up(pa.array(["a"]), ["v"]).num_rows == 0
        assert master.data_nbytes <= 8
        assert master.buffer_nbytes(1) >= 0


def test_nothing_but_null_keys(make: Make) -> None:
    with make(pa.table({"k": pa.nulls(10, pa.int64())}), "k") as master:
        assert master.num_rows == 0


def test_bytes_are_told_truly(make: Make, products: pa.Table) -> None:
    with make(products, "id") as master:
        names = products.schema.names
        pages = [master.read([p], names).nbytes for p in range(master.num_pages)]
        assert master.max_page_nbytes == max(pages)
        assert 0.95 * sum(pages) <= master.data_nbytes <= 1.05 * sum(pages)
        assert master.index_nbytes <= 32 * (master.num_pages + 1)
        assert master.buffer_nbytes(1) < master.buffer_nbytes(5)
        everything = master.buffer_nbytes(master.num_pages)
        assert everything == master.buffer_nbytes(10 * master.num_pages)
        assert everything >= master.read(range(master.num_pages), names).nbytes


def test_a_copy_by_pickle_reads_the_same(make: Make, products: pa.Table) -> None:
    with make(products, "id") as master, pickle.loads(pickle.dumps(master)) as copy:
        assert copy.version == master.version
        pages = range(0, master.num_pages, 3)
        assert copy.read(pages, ["id", "name"]).equals(master.read(pages, ["id", "name"]))


def test_a_closed_master_says_so(make: Make, products: pa.Table) -> None:
    master = make(products, "id")
    master.close()
    master.close()
    calls: list[Callable[[], Any]] = [
        lambda: master.read([0], ["id"]),
        lambda: master.look_up(pa.array([1]), ["id"]),
        lambda: master.page_of(pa.array([1])),
        lambda: master.refresh(),
    ]
    for call in calls:
        with pytest.raises(StateError, match="is closed"):
            call()


@pytest.mark.parametrize(
    ("table", "key", "error", "says"),
    [
        (pa.table({"a": [1]}), "b", SchemaError, "no column 'b'"),
        (pa.table({"a": [1]}), [], SchemaError, "one column or several"),
        (pa.table({"a": [1]}), ["a", "a"], SchemaError, "several different"),
        (pa.table({"a": [1.5]}), "a", KeyTypeError, "double cannot be a join key"),
        (pa.table([[1], [2]], names=["a", "a"]), "a", SchemaError, "several columns named 'a'"),
    ],
)
def test_tables_that_cannot_be_masters(
    make: Make, table: pa.Table, key: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        make(table, key)
