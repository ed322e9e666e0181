"""Addresses of a lake's tables, and who reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from penstock.cli.master import app
from penstock.errors import MasterError
from penstock.masters import build_master, open_master
from penstock.masters.lake.address import LakeAddress, lake_address
from penstock.spark.reaching import Address, reference


@pytest.fixture
def file(tmp_path: Path) -> Path:
    table = pa.table({"id": range(1_000), "price": range(1_000)})
    pq.write_table(table, tmp_path / "products.parquet", row_group_size=100)
    return tmp_path / "products.parquet"


@pytest.mark.parametrize(
    ("text", "kind", "place", "key"),
    [
        ("r.parquet", "parquet", "r.parquet", ()),
        ("r.parquet?key=id", "parquet", "r.parquet", ("id",)),
        ("what?.parquet?key=id", "parquet", "what?.parquet", ("id",)),
        ("gone/table?key=a,b", "parquet", "gone/table", ("a,b",)),
        ("s3://b/t/?key=id", "parquet", "s3://b/t/", ("id",)),
        ("s3://b/t?region=x&key=id", "parquet", "s3://b/t?region=x", ("id",)),
        ("gs://b/r.parquet", "parquet", "gs://b/r.parquet", ()),
        ("delta+s3://b/t?key=id", "delta", "s3://b/t", ("id",)),
        ("delta:///data/my%20t?key=id", "delta", "/data/my t", ("id",)),
        ("delta:t", "delta", "t", ()),
    ],
)
def test_tables(text: str, kind: str, place: str, key: tuple[str, ...]) -> None:
    assert lake_address(text) == LakeAddress(kind, place, key)


@pytest.mark.parametrize(
    "text", ["r.arrow", "s3://b/r.arrow", "s3://b/r.arrow?region=x", "postgresql://h/d?key=id"]
)
def test_what_is_no_table_of_a_lake(text: str) -> None:
    assert lake_address(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "r.parquet?key=id",
        "s3://u:p@b/t?region=x&key=a,b",
        "delta+s3://b/t?key=id",
        "delta:/a b?key=c",
    ],
)
def test_written_again_they_are_the_same(text: str) -> None:
    address = lake_address(text)
    assert address is not None
    assert lake_address(address.text) == address


def test_secrets_are_not_shown() -> None:
    address = lake_address("s3://user:pass@bucket/t/?secret_key=top&key=id")
    assert str(address) == "s3://***@bucket/t/?key=id"


def test_for_executors(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    found = reference("products.parquet?key=id")
    assert isinstance(found, Address)
    assert found.address == f"{file}?key=id"
    assert (found.name, str(found)) == ("products", f"{file}?key=id")
    assert found.is_on_this_machine
    assert not Address("/nowhere/r.parquet?key=id").is_on_this_machine
    monkeypatch.chdir("/")
    with found.open() as master:
        assert master.num_rows == 1_000
    with pytest.raises(ValueError, match="does not say what its key is"):
        reference(str(file))


def test_info(file: Path) -> None:
    address = f"{file}?key=id"
    text = CliRunner().invoke(app, ["info", address])
    assert text.exit_code == 0, text.output
    for told in ("1,000", "10 row groups in 1 file", "generations of the files", "id  int64"):
        assert told in " ".join(text.stdout.split(" "))
    described = json.loads(CliRunner().invoke(app, ["info", address, "--output", "json"]).stdout)
    with open_master(address) as master:
        assert described == master.info().to_dict()
    assert described["rows"] == 1_000
    assert described["unique"] is None


def test_the_command_that_a_refusal_names(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [3, 1, 2, 5, 4]}), tmp_path / "r.parquet", row_group_size=2)
    source = (tmp_path / "r.parquet").as_uri()
    for number, given in enumerate((source, str(tmp_path / "r.parquet"))):
        target = tmp_path / f"{number}.arrow"
        done = CliRunner().invoke(app, ["build", given, str(target), "--key", "id"])
        assert done.exit_code == 0, done.output
        with open_master(target) as master:
            assert master.num_rows == 5


def test_page_files_are_still_page_files(tmp_path: Path) -> None:
    build_master(pa.table({"id": [1]}), tmp_path / "r.arrow", "id")
    described = CliRunner().invoke(app, ["info", str(tmp_path / "r.arrow"), "--output", "json"])
    assert json.loads(described.stdout)["format_version"] >= 1


def test_a_parameter_that_means_nothing(tmp_path: Path) -> None:
    with pytest.raises(MasterError, match=r"'kye' behind it says nothing\. Did you mean 'key'"):
        open_master(f"{tmp_path}?kye=id")
