"""Everything that a master can be built from, and what is said of anything else."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

from penstock.errors import MasterError, SchemaError
from penstock.masters import build_master
from penstock.masters.sources import open_source

TABLE = pa.table({"id": [3, 1, 2, None], "name": ["c", "a", "b", "d"]})


class Batches:
    """An iterable that has a schema and may be empty."""

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self._table = table

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches(max_chunksize=1))


class Streaming:
    """What other libraries' tables are to us."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (lambda t: t, 4),
        (lambda t: t.to_batches()[0], 4),
        (lambda t: t.to_reader(max_chunksize=2), None),
        (Batches, None),
        (lambda t: iter(t.to_batches(max_chunksize=3)), None),
        (lambda t: t.to_batches(max_chunksize=1), None),
        (Streaming, None),
    ],
    ids=["table", "batch", "reader", "iterable", "iterator", "list", "stream"],
)
def test_data_in_memory(make: Callable[[pa.Table], Any], rows: int | None) -> None:
    source = open_source(make(TABLE))
    assert source.schema.equals(TABLE.schema)
    assert source.rows == rows
    assert pa.Table.from_batches(source.batches, source.schema).equals(TABLE)


def write_ipc(path: Path, table: pa.Table, new: Callable[..., Any]) -> None:
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_folder(path: Path, table: pa.Table) -> None:
    path.mkdir()
    pyarrow.parquet.write_table(table.slice(0, 2), path / "part-0.parquet")
    pyarrow.parquet.write_table(table.slice(2), path / "part-1.parquet")
    (path / "_SUCCESS").touch()


WRITERS: dict[str, Callable[[Path, pa.Table], Any]] = {
    "r.parquet": lambda p, t: pyarrow.parquet.write_table(t, p, row_group_size=2),
    "parquet_without_suffix": lambda p, t: pyarrow.parquet.write_table(t, p),
    "r.arrow": lambda p, t: write_ipc(p, t, pa.ipc.new_file),
    "r.arrows": lambda p, t: write_ipc(p, t, pa.ipc.new_stream),
    "r.csv": lambda p, t: pyarrow.csv.write_csv(t, p),
    "r.tsv": lambda p, t: p.write_text("id\tname\n3\tc\n1\ta\n2\tb\n\td\n"),
    "R.CSV.GZ": lambda p, t: p.write_bytes(gzip.compress(b"id,name\n3,c\n1,a\n2,b\n,d\n")),
    "folder": write_folder,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("as_text", [True, False])
def test_files(tmp_path: Path, name: str, as_text: bool) -> None:
    path = tmp_path / name
    WRITERS[name](path, TABLE)
    source = open_source(str(path) if as_text else path)
    assert source.schema.equals(TABLE.schema)
    assert pa.Table.from_batches(source.batches, source.schema).equals(TABLE)
    assert source.rows == (4 if "parquet" in name or name == "folder" else None)


def test_partitions_become_columns(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "year": [2023, 2024, 2024]})
    pyarrow.dataset.write_dataset(
        table,
        tmp_path / "sales",
        format="parquet",
        partitioning=["year"],
        partitioning_flavor="hive",
    )
    source = open_source(tmp_path / "sales")
    rows = pa.Table.from_batches(source.batches, source.schema).sort_by("id")
    assert rows.to_pydict() == {"id": [1, 2, 3], "year": [2023, 2024, 2024]}


def test_empty_files(tmp_path: Path) -> None:
    empty = TABLE.slice(0, 0)
    for name in ("r.parquet", "r.arrow", "r.arrows"):
        WRITERS[name](tmp_path / name, empty)
        source = open_source(tmp_path / name)
        assert source.schema.equals(TABLE.schema)
        assert list(source.batches) == [] or sum(b.num_rows for b in source.batches) == 0


def test_what_cannot_be_a_source(tmp_path: Path) -> None:
    with pytest.raises(MasterError, match="cannot be built from a int"):
        open_source(7)
    with pytest.raises(MasterError, match="cannot be built from a bytes"):
        open_source(b"id,name")
    with pytest.raises(SchemaError, match="its first item is dict"):
        open_source([{"id": 1}])
    with pytest.raises(SchemaError, match="gave no batches"):
        open_source(iter([]))
    (tmp_path / "p.txt").write_text("id,name\n1,a\n")
    with pytest.raises(MasterError, match=r"cannot tell what the source .*p\.txt.*--delimiter ,"):
        open_source(tmp_path / "p.txt")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(MasterError, match=r"empty\.csv: it is empty \(0 bytes\).*column names"):
        open_source(tmp_path / "empty.csv")
    (tmp_path / "blank.csv").write_text("\n\n")
    with pytest.raises(MasterError, match=r"cannot read the source .*blank\.csv: .*Empty CSV"):
        open_source(tmp_path / "blank.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + b"\0" * 40 + b"PAR1")
    with pytest.raises(MasterError, match=r"cannot read the source .*broken\.parquet"):
        open_source(tmp_path / "broken.parquet")


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "products.csv").write_text("id\n1\n")
    with pytest.raises(MasterError, match=r"prodcts\.csv: No such file.*mean 'products\.csv'\?"):
        open_source(tmp_path / "prodcts.csv")
    with pytest.raises(MasterError, match=r"No such file or directory\. Correct the path\."):
        open_source(tmp_path / "elsewhere.parquet")
    with pytest.raises(MasterError, match=r"There is no folder .*nowhere either"):
        open_source(tmp_path / "nowhere" / "products.csv")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "r.csv").write_text("id\n1\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(MasterError, match=r"r\.csv: Permission denied\. Give this user the right"):
        open_source(tmp_path / "r.csv")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.csv")
    with pytest.raises(MasterError, match=r"it is a pipe or a device.*Write it to a file"):
        open_source(tmp_path / "r.csv")


def test_folders_of_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    with pytest.raises(MasterError, match="has no Parquet files, nor any others"):
        open_source(folder)
    for name in ("a.csv", "b.csv"):
        (folder / name).write_text("id\n1\n")
    with pytest.raises(MasterError, match=r"has no Parquet files \(2 of another kind.*a\.csv"):
        open_source(folder)
    pyarrow.parquet.write_table(TABLE, folder / "c.parquet")
    with pytest.raises(MasterError, match=r"other files beside Parquet \(2 of another.*a\.csv"):
        open_source(folder)


def test_an_error_midway_says_how_far_it_came() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise OSError("the database has gone away")

    source = open_source(failing())
    with pytest.raises(MasterError, match="after 4 rows: the database has gone away"):
        list(source.batches)


def test_an_iterable_without_batches_is_told_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"gave no batches.*Give one batch"):
        build_master(iter([]), tmp_path / "r.arrow", "k")
    empty = pa.record_batch({"k": pa.array([], pa.int64())})
    assert build_master(iter([empty]), tmp_path / "r.arrow", "k").rows == 0


@pytest.mark.parametrize("kind", ["table", "batches", "r.parquet", "r.arrow", "r.arrows"])
@pytest.mark.parametrize(
    ("names", "said"), [(["k", "k"], "several columns named 'k'"), (["k", ""], "no name for its")]
)
def test_names_that_do_not_tell_columns_apart(
    tmp_path: Path, kind: str, names: list[str], said: str
) -> None:
    table = pa.table([[1], [2]], names=names)
    source: Any = {"table": table, "batches": table.to_batches()}.get(kind, tmp_path / kind)
    if kind == "r.parquet":
        pyarrow.parquet.write_table(table, source)
    elif isinstance(source, Path):
        new = pa.ipc.new_file if kind == "r.arrow" else pa.ipc.new_stream
        write_ipc(source, table, new)
    with pytest.raises(SchemaError, match=said):
        build_master(source, tmp_path / "target.arrow", "k")
