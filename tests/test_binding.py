"""Which columns a join reads and writes, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import KeyTypeError, SchemaError
from penstock.joins.binding import Binding
from penstock.keys import NO_SUCH_ROW, NULL_KEY
from penstock.masters import MemoryMaster

PRODUCTS = pa.table(
    {"id": [1, 2], "shop": ["a", "b"], "price": [5, 7], "name": ["pen", "ink"]},
    schema=pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("shop", pa.string(), nullable=False),
            pa.field("price", pa.int64(), nullable=False),
            pa.field("name", pa.string()),
        ]
    ),
)
STREAM = pa.schema({"id": pa.int32(), "shop": pa.string(), "sold": pa.int8()})


def bind(
    key: Any = "id",
    on: Any = "id",
    stream: pa.Schema = STREAM,
    on_miss: Any = "null",
    columns: Any = None,
    table: pa.Table = PRODUCTS,
) -> Binding:
    return Binding.resolve(MemoryMaster(table, key), stream, on, on_miss, columns)


def test_all_columns_but_the_key_are_added_and_may_be_null() -> None:
    bound = bind(key=["id", "shop"], on=["id", "shop"])
    assert bound.columns == ("price", "name")
    assert bound.output_schema.names == ["id", "shop", "sold", "price", "name"]
    assert bound.output_schema.field("price").nullable
    assert bound.output_schema.field("id").type == pa.int32()
    assert bound.read_columns == ["id", "shop", "price", "name"]


def test_the_order_of_the_key_is_the_masters() -> None:
    bound = bind(key=["id", "shop"], on=["shop", ("id", "id")])
    assert bound.stream_key == ("id", "shop")
    assert bound.master_key == ("id", "shop")


def test_a_pair_names_a_stream_column_and_a_master_column() -> None:
    stream = pa.schema({"product": pa.int64()})
    bound = bind(on=("product", "id"), stream=stream, columns=["id", "price"])
    assert bound.stream_key == ("product",)
    assert bound.output_schema.names == ["product", "id", "price"]
    assert bound.read_columns == ["id", "price"]


def test_marks_are_the_last_column() -> None:
    bound = bind(on_miss="mark", columns=["price"])
    assert bound.output_schema.names == ["id", "shop", "sold", "price", "_miss"]
    rows = bound.compose(
        [
            pa.array([1, 2, 3], pa.int32()),
            pa.array(["a", "b", "c"]),
            pa.array([0, 0, 0], pa.int8()),
        ],
        [pa.array([5, None, None])],
        np.array([0, NULL_KEY, NO_SUCH_ROW], dtype=np.uint8),
    )
    assert rows.column("_miss").to_pylist() == [None, "null key", "no such row"]
    assert rows.schema == bound.output_schema
    unmarked = bound.compose([c[:1] for c in rows.columns[:3]], [pa.array([5])])
    assert unmarked.column("_miss").to_pylist() == [None]


def test_nulls_have_the_masters_types() -> None:
    bound = bind(columns=["name", "price"])
    assert [(c.type, c.null_count) for c in bound.nulls(3)] == [(pa.string(), 3), (pa.int64(), 3)]


def test_a_cache_holds_the_key_only_where_codes_do_not_decide() -> None:
    master = MemoryMaster(PRODUCTS, "id")
    assert bind(columns=["price"]).cached_schema(master).names == ["price"]
    texts = MemoryMaster(PRODUCTS, "shop")
    by_text = bind(
        key="shop", on="shop", stream=pa.schema({"shop": pa.string()}), columns=["price"]
    )
    assert by_text.cached_schema(texts).names == ["shop", "price"]


def test_encoded_columns_of_the_stream_come_out_plain() -> None:
    stream = pa.schema(
        {
            "id": pa.dictionary(pa.int8(), pa.int64()),
            "view": pa.string_view(),
            "runs": pa.run_end_encoded(pa.int32(), pa.int16()),
            "list": pa.list_(pa.dictionary(pa.int8(), pa.string())),
        }
    )
    plain = bind(stream=stream, columns=[]).output_schema
    assert plain.types == [pa.int64(), pa.string(), pa.int16(), pa.list_(pa.string())]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"on": "price"}, ["key is (id)", "price"]),
        ({"on": []}, ["on=[]", "pair"]),
        ({"on": ("a", "b", "c")}, ["names no key"]),
        ({"on": 5}, ["on=5", "names no key"]),
        ({"on": [("id", 5)]}, ["names no key"]),
        ({"on": ["id", "shop"]}, ["key is (id)", "id, shop"]),
        (
            {"on": "idd"},
            [
                "neither the stream nor the master has a column 'idd'. Did you mean 'id'?",
                "The stream's columns are: id, shop, sold; the master's: id, shop, price, name;",
                "the master's key is (id)",
            ],
        ),
        ({"on": "ID"}, ["Did you mean 'id'?"]),
        ({"on": "shop"}, ["'shop' is no key of the master", "on=('shop', 'id')"]),
        ({"on": "sold"}, ["the master has no column 'sold'", "on=('sold', 'id')"]),
        (
            {"on": "id", "stream": pa.schema({"product": pa.int64()})},
            ["the stream has no column 'id'", "on=(stream column, 'id')", "columns are: product;"],
        ),
        ({"on": ("id", "idd")}, ["the master has no column 'idd'. Did you mean 'id'?"]),
        (
            {"key": ["id", "shop"], "on": "id, shop"},
            ["Several columns are a list: ['id', 'shop']"],
        ),
        (
            {"key": ["id", "shop"], "on": ("id", "shopp")},
            ["Did you mean 'shop'?", "is a list, not a pair: ['id', 'shop']"],
        ),
        ({"key": ["id", "shop"], "on": "id"}, ["(id), which is not", "key is (id, shop)"]),
        ({"on": [("id", "id"), ("sold", "id")]}, ["key is (id)"]),
        ({"on": ("idd", "id")}, ["the stream has no column 'idd'", "Did you mean 'id'"]),
        ({"columns": ["prise"]}, ["the master has no column 'prise'", "Did you mean 'price'"]),
        ({"columns": "price,name"}, ["are a list: ['price', 'name']"]),
        ({"columns": ["sold"]}, ["the master has no column 'sold'", "'sold' is the stream's"]),
        ({"columns": ["price", "price"]}, ["columns has 'price' twice"]),
        ({"columns": ["shop"]}, ["two columns named 'shop'", "columns="]),
        ({"on_miss": "explode"}, ["'null', 'drop' or 'mark'", "explode"]),
    ],
)
def test_what_cannot_be_bound_is_refused_with_a_hint(
    asked: dict[str, Any], words: list[str]
) -> None:
    columns = {"columns": ["price"], **asked}
    with pytest.raises(SchemaError) as caught:
        bind(**columns)
    for word in words:
        assert word in str(caught.value)


def test_a_clash_is_refused_also_for_the_mark() -> None:
    stream = pa.schema({"id": pa.int64(), "_miss": pa.string()})
    with pytest.raises(SchemaError, match="_miss"):
        bind(stream=stream, on_miss="mark", columns=["price"])
    assert bind(stream=stream, columns=["price"]).output_schema.names == ["id", "_miss", "price"]


@pytest.mark.parametrize("name", ["id", "sold"])
def test_a_column_that_is_there_twice_is_refused(name: str) -> None:
    stream = pa.schema([("id", pa.int64()), ("sold", pa.int8()), (name, pa.int64())])
    with pytest.raises(SchemaError, match=f"the stream has 2 columns named '{name}'; rename"):
        bind(stream=stream, columns=["price"])


@pytest.mark.parametrize("name", ["_arrival", "_arrived_at", "__arrival"])
def test_names_that_joins_use_themselves_are_refused(name: str) -> None:
    stream = pa.schema({"id": pa.int64(), name: pa.int64()})
    with pytest.raises(SchemaError, match=f"the stream has the column '{name}'; .*Rename it"):
        bind(stream=stream, columns=["price"])
    stream = pa.schema({"id": pa.int64(), "_arrived_at": pa.int64(), "_arrival": pa.int64()})
    with pytest.raises(SchemaError, match=r"columns '_arrival', '_arrived_at'; .*Rename them"):
        bind(stream=stream, columns=["price"])


@pytest.mark.parametrize("name", ["_arrival", "_arrived_at", "__arrival"])
def test_in_the_master_the_same_names_are_free(name: str) -> None:
    table = pa.table({"id": [1, 2], name: [10, 20]})
    join = penstock.joins.RootJoin(budget="1MB").build(
        MemoryMaster(table, "id"), pa.schema({"id": pa.int64()}), on="id"
    )
    (rows,) = pa.table({"id": [2, 1]}).to_batches()
    join.push(rows)
    assert join.waiting().column("_arrival").to_pylist() == [0, 1]
    out = pa.Table.from_batches(list(join.flush()))
    assert sorted(out[name].to_pylist()) == [10, 20]


@pytest.mark.parametrize(
    "stream_type", [pa.string(), pa.float64(), pa.date32(), pa.bool_(), pa.list_(pa.int64())]
)
def test_types_that_cannot_meet_are_refused_with_both(stream_type: pa.DataType) -> None:
    with pytest.raises(KeyTypeError) as caught:
        bind(stream=pa.schema({"id": stream_type}), columns=["price"])
    assert str(stream_type) in str(caught.value)
    assert "the stream's column 'id' and the master's 'id'" in str(caught.value)


def test_a_pair_may_have_one_name_twice() -> None:
    binding = bind(stream=pa.schema({"id": pa.int64()}), columns=["price"], on=("id", "id"))
    assert binding.stream_key == ("id",)


def test_a_key_among_the_columns_is_told_as_such() -> None:
    with pytest.raises(SchemaError, match=r"columns has the key 'id', which the stream brings"):
        bind(stream=pa.schema({"id": pa.int64()}), columns=["id", "price"])


def test_types_that_cannot_meet_come_before_names_that_clash() -> None:
    with pytest.raises(KeyTypeError):
        bind(stream=pa.schema({"id": pa.string(), "price": pa.float64()}))


def test_of_a_composite_key_the_columns_that_cannot_meet_are_named() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "v": [10, 20]})
    master = penstock.MemoryMaster(table, key=("a", "b"))
    stream = pa.schema({"a": pa.int64(), "code": pa.int64()})
    with pytest.raises(
        KeyTypeError, match=r"stream's column 'code' and the master's 'b': .*--type b="
    ):
        penstock.joins.RootJoin().build(master, stream, on=["a", ("code", "b")])


@pytest.mark.parametrize("on", [("a", "b"), ["a", "b"], {"a": "a", "b": "b"}])
def test_a_composite_key_may_be_a_tuple_a_list_or_a_dictionary(on: Any) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "v": [10, 20]})
    master = penstock.MemoryMaster(table, key=("a", "b"))
    join = penstock.joins.RootJoin(budget="1MB").build(
        master, table.select(["a", "b"]).schema, on=on, columns="v"
    )
    (batch,) = table.select(["a", "b"]).to_batches()
    out = pa.Table.from_batches([*join.push(batch), *join.flush()])
    assert sorted(out["v"].to_pylist()) == [10, 20]


def test_what_is_no_batch_is_refused_and_the_join_goes_on() -> None:
    table = pa.table({"a": [1, 2], "v": [10, 20]})
    stream = table.select(["a"])
    master = penstock.MemoryMaster(table, key="a")
    join = penstock.joins.HybridJoin(budget="1MB").build(master, stream.schema, on="a")
    for wrong in (stream, {"a": [1]}, None):
        with pytest.raises(SchemaError, match="RecordBatch"):
            join.push(wrong)
    (batch,) = stream.to_batches()
    assert sum(piece.num_rows for piece in [*join.push(batch), *join.flush()]) == 2


def test_a_path_or_a_batch_where_a_master_or_a_schema_belongs_is_named() -> None:
    plan = penstock.joins.RootJoin(budget="1MB")
    table = pa.table({"a": [1], "v": [10]})
    with pytest.raises(SchemaError, match="open_master"):
        plan.build("r.arrow", table.schema, on="a")
    with pytest.raises(SchemaError, match=r"\.schema"):
        plan.build(penstock.MemoryMaster(table, key="a"), table, on="a")
