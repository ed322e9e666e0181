"""CSV files: nothing is lost by inferring types, and errors say what to pass."""

from __future__ import annotations

import codecs
import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from penstock.errors import KeyTypeError, OptionError, PenstockError, SchemaError
from penstock.masters import PageFileMaster, build_master
from penstock.masters.csv_source import CsvOptions
from penstock.masters.sources import open_source

FIRST_BLOCK = 1 << 20
"""Arrow infers types from this many bytes."""


def read(path: Path, content: str | bytes, **options: Any) -> pa.Table:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    source = open_source(path, CsvOptions(**options))
    return pa.Table.from_batches(source.batches, source.schema)


def refused(path: Path, content: str | bytes, **options: Any) -> str:
    with pytest.raises(PenstockError) as caught:
        read(path, content, **options)
    return str(caught.value)


def late(first: str, last: str, head: str = "id,x") -> tuple[str, int]:
    """A file whose last row is beyond what types are inferred from, and that row's number."""
    rows = FIRST_BLOCK // len(first) + 1_000
    return f"{head}\n{first * rows}{last}", rows + 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.csv"


# --- what is inferred ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "type_name"),
    [
        (["1", "20", "-3", "0"], "int64"),
        (["1", "", "NA"], "int64"),
        ([" 1", "2 ", "3"], "int64"),
        (["0.5", "-0.25", "1e5", "0"], "double"),
        (["1.5", "", "nan"], "double"),
        (["123456789012345.5", "0.12345678901234567"], "double"),
        (["00123", "4"], "string"),
        (['"00123"', "4"], "string"),
        ([" 00123", "4"], "string"),
        (["-01", "4"], "string"),
        (["0x10", "4"], "string"),
        (["00", "4"], "string"),
        (["007", "1.5"], "string"),
        (["12345678901234567890", "4"], "string"),
        (["2024-01-31", "2024-02-29"], "date32[day]"),
        (["true", "false"], "bool"),
        (["a", "b"], "string"),
    ],
)
def test_types_are_inferred_where_nothing_is_lost(
    path: Path, values: list[str], type_name: str
) -> None:
    column = read(path, "id,x\n" + "".join(f"1,{v}\n" for v in values))["x"]
    assert str(column.type) == type_name
    if type_name == "string":
        assert column.to_pylist() == [v.strip('"') for v in values]


def test_numbers_are_those_that_arrow_reads(path: Path) -> None:
    text = "id,x,y\n1,5, 0.5\n,NA,null\n-3, 7 ,1e3\n"
    assert read(path, text).to_pydict() == {
        "id": [1, None, -3],
        "x": [5, None, 7],
        "y": [0.5, None, 1000.0],
    }


def test_numbers_beyond_what_types_are_inferred_from(path: Path) -> None:
    text, rows = late("1,5\n", ", 7 \n2,NA\n")
    table = read(path, text)
    assert table.num_rows == rows + 1
    assert table.slice(rows - 1).to_pydict() == {"id": [None, 2], "x": [7, None]}


def test_a_key_with_leading_zeros_is_found_by_its_text(tmp_path: Path, path: Path) -> None:
    path.write_text("zip,city\n00123,A\n123,B\n")
    build_master(path, tmp_path / "r.arrow", "zip")
    with PageFileMaster(tmp_path / "r.arrow") as master:
        assert master.look_up(pa.array(["00123"]), ["city"]).to_pydict() == {"city": ["A"]}


def test_no_rows(path: Path) -> None:
    table = read(path, "id,x\n", types={"id": "int64"})
    assert table.num_rows == 0
    assert table.schema.types == [pa.int64(), pa.null()]


def test_a_key_without_values_needs_a_type(tmp_path: Path, path: Path) -> None:
    path.write_text("id,x\n")
    with pytest.raises(SchemaError, match=r"'id' of the source has no values.*--type id=int64"):
        build_master(path, tmp_path / "r.arrow", "id")
    assert build_master(path, tmp_path / "r.arrow", "id", types={"id": "int64"}).rows == 0


# --- what is given ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "value", "read_as"),
    [
        (pa.string(), "00123", "00123"),
        ("string", "00123", "00123"),
        ("text", "00123", "00123"),
        ("int64", "00123", 123),
        ("int", "7", 7),
        (pa.int16(), "7", 7),
        ("decimal(12, 2)", "1.50", Decimal("1.50")),
        ("decimal128(5,1)", "1.5", Decimal("1.5")),
        ("float", "0.1", 0.1),
        ("double", "0.1", 0.1),
    ],
)
def test_types(path: Path, given: pa.DataType | str, value: str, read_as: object) -> None:
    assert read(path, f"id,x\n1,{value}\n", types={"x": given})["x"].to_pylist() == [read_as]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us")),
        ("timestamp[ms]", pa.timestamp("ms")),
        ("timestamp[us, tz=UTC]", pa.timestamp("us", "UTC")),
        ("decimal256(50, 3)", pa.decimal256(50, 3)),
        (" INT32 ", pa.int32()),
    ],
)
def test_names_of_types(given: str, meant: pa.DataType) -> None:
    assert CsvOptions({"x": given}).types == {"x": meant}


@pytest.mark.parametrize("delimiter", [";", "|", "tab", "\\t", "\t"])
def test_delimiters(path: Path, delimiter: str) -> None:
    between = "\t" if "t" in delimiter else delimiter
    table = read(path, f"id{between}x\n1{between}2,5\n", delimiter=delimiter)
    assert table.to_pydict() == {"id": [1], "x": ["2,5"]}


def test_a_delimiter_says_that_a_file_is_text_whatever_its_name(tmp_path: Path) -> None:
    assert read(tmp_path / "p.txt", "id,x\n1,2\n", delimiter=",").to_pydict() == {
        "id": [1],
        "x": [2],
    }
    packed = gzip.compress(b"id;x\n01;2\n")
    assert read(tmp_path / "p.dat.gz", packed, delimiter=";").to_pydict() == {
        "id": ["01"],
        "x": [2],
    }


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8"])
def test_encodings(path: Path, encoding: str) -> None:
    table = read(path, "né,x\n1,café\n".encode(encoding), encoding=encoding)
    assert table.to_pydict() == {"né": [1], "x": ["café"]}


def test_bytes_that_are_no_text_can_be_kept(path: Path) -> None:
    table = read(path, b"id,x\n1,caf\xe9\n", types={"x": "binary"})
    assert table["x"].to_pylist() == [b"caf\xe9"]


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"types": {"x": "strng"}}, ["'strng'", "column 'x'", "Did you mean 'string'"]),
        ({"types": {"x": 5}}, ["5, given for column 'x', is no type"]),
        ({"types": ["x"]}, ["types=['x']", "dictionary"]),
        ({"delimiter": "::"}, ["delimiter='::'", "one ASCII character"]),
        ({"delimiter": "§"}, ["delimiter='§'"]),
        ({"delimiter": ""}, ["delimiter=''"]),
        ({"delimiter": '"'}, ["delimiter="]),
        ({"encoding": "latin-99"}, ["encoding='latin-99'", "'latin-1'"]),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        CsvOptions(**options)
    for word in words:
        assert word in str(caught.value)


def test_a_type_for_a_column_that_is_not_there(path: Path) -> None:
    said = refused(path, "id,zip\n1,2\n", types={"zpi": "string"})
    assert "has no column 'zpi'; its columns are: id, zip. Did you mean 'zip'?" in said


@pytest.mark.parametrize(
    ("first", "last", "was", "value"),
    [
        ("1,5\n", "2,0012\n", "int64, as its first rows were", "'0012'"),
        ("1,5\n", "2,12x\n", "int64, as its first rows were", "'12x'"),
        ("1,5\n", "2,1.5\n", "int64, as its first rows were", "'1.5'"),
        ("1,5\n", "2,99999999999999999999\n", "int64", "'99999999999999999999'"),
        ("1,0.5\n", "2,none\n", "double, as its first rows were", "'none'"),
        ("1,0.5\n", "2, 007\n", "double, as its first rows were", "'007'"),
        ("1,2024-01-01\n", "2,soon\n", "date32[day], as its first rows were", "'soon'"),
        ("1,true\n", "2,2\n", "bool, as its first rows were", "'2'"),
        ("1,\n", "2,here\n", "empty, as in all of its first rows", "'here'"),
    ],
)
def test_a_late_value_that_does_not_fit_is_named_with_what_to_pass(
    path: Path, first: str, last: str, was: str, value: str
) -> None:
    text, row = late(first, last)
    said = refused(path, text)
    assert f"column 'x' of the source {path} was to be {was}" in said
    assert f"has {value} there" in said
    assert "types={'x': 'string'} (--type x=string)" in said
    numbers = was.startswith(("int64", "double"))
    assert (f"but row {row:,} has" if numbers else "but a row behind row") in said
    assert read(path, text, types={"x": "string"}).num_rows == row


def test_a_value_that_does_not_fit_what_was_asked_for(path: Path) -> None:
    said = refused(path, "id,x\n1,-\n", types={"x": "int16"})
    assert "column 'x'" in said
    assert "was to be int16, as was asked" in said
    assert "has '-' there" in said
    said = refused(path, "id,x\n1,2.555\n", types={"x": "decimal(10,2)"})
    assert "cannot read column 'x'" in said


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("r.csv", "id;x\n1;2\n", "delimiter=';' (--delimiter ';')"),
        ("r.csv", "id\tx\n1\t2\n", "delimiter='tab' (--delimiter 'tab')"),
        ("r.csv", "id|x\n1|2\n", "delimiter='|'"),
        ("r.tsv", "id,x\n1,2\n", "delimiter=','"),
    ],
)
def test_one_column_that_looks_like_several(
    tmp_path: Path, name: str, text: str, shown: str
) -> None:
    said = refused(tmp_path / name, text)
    assert "would have one column" in said
    assert shown in said


def test_one_column_is_taken_when_its_delimiter_is_given(path: Path) -> None:
    assert read(path, "a;b\n1\n", delimiter=",").to_pydict() == {"a;b": [1]}


@pytest.mark.parametrize(
    "content",
    [
        "id,x\n1,café\n".encode("latin-1"),
        "né,x\n1,a\n".encode("latin-1"),
        late("1,a\n", "")[0].encode() + "2,café\n".encode("latin-1"),
        "id,x\n1,café\n".encode("utf-16"),
    ],
    ids=["value", "header", "late", "utf-16"],
)
def test_other_encodings_are_told_of(path: Path, content: bytes) -> None:
    named = "utf-16" if content.startswith(codecs.BOM_UTF16_LE) else "latin-1"
    said = refused(path, content)
    assert f"encoding='{named}'" in said
    assert f"--encoding {named}" in said


def test_an_encoding_that_is_not_the_files(path: Path) -> None:
    assert "is not in ascii" in refused(path, "id,x\n1,é\n", encoding="ascii")


def test_rows_of_another_length(path: Path) -> None:
    text, rows = late("1,a\n", "1,a,b\n")
    said = refused(path, text)
    assert f"its row {rows + 1:,} (the header is row 1) has 3 columns, the header 2 columns" in said
    assert "in quotes" in said


@pytest.mark.parametrize("source", ["r.parquet", "table"])
def test_options_of_csv_are_refused_for_what_has_types(tmp_path: Path, source: str) -> None:
    table = pa.table({"id": [1]})
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet")
    given = table if source == "table" else tmp_path / "r.parquet"
    with pytest.raises(OptionError, match="types and delimiter: for CSV files only"):
        open_source(given, CsvOptions({"id": "int32"}, ";"))
    with pytest.raises(OptionError, match="encoding: for CSV files only"):
        open_source(given, CsvOptions(encoding="latin-1"))


def test_rows_of_another_length_at_the_beginning(path: Path) -> None:
    said = refused(path, "id,x\n1,5\n2\n")
    assert "its row 3 (the header is row 1) has 1 column, the header 2 columns" in said
    assert "--delimiter" in said


def test_decimal_commas_behind_one_column_that_looks_like_several(path: Path) -> None:
    """Arrow stops at the rows before it has said what the columns are."""
    said = refused(path, "id;price\n1;2,5\n")
    assert "delimiter=';' (--delimiter ';')" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("id,x,id,x,y", ["several columns named 'id', 'x'", "Rename all but one"]),
        ("id,,y,,z", ["no name for its columns 2, 4 of 5", "Give each a name"]),
        ("id, ,y", ["no name for its column 2 of 3", "Give it a name"]),
    ],
)
def test_names_that_do_not_tell_columns_apart(path: Path, head: str, words: list[str]) -> None:
    said = refused(path, f"{head}\n{','.join('1' for _ in head.split(','))}\n")
    for word in [*words, str(path)]:
        assert word in said
    assert "\n" not in said


def test_a_key_that_cannot_be_one_is_named_with_what_to_pass(tmp_path: Path, path: Path) -> None:
    path.write_text("id,weight\n1,0.5\n")
    with pytest.raises(KeyTypeError, match=r"'weight'.*double cannot.*--type weight=string"):
        build_master(path, tmp_path / "r.arrow", ["id", "weight"])
    assert build_master(path, tmp_path / "r.arrow", "weight", types={"weight": "string"}).rows == 1
