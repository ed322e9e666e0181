"""The command `penstock master`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.master import _types, app
from penstock.errors import (
    BudgetError,
    CorruptMasterError,
    MasterError,
    OptionError,
    SchemaError,
)
from penstock.masters import PageFileMaster


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rows = range(2_000)
    table = pa.table({"id": [i * 7 % 2_000 for i in rows], "name": [f"n{i}" for i in rows]})
    pyarrow.csv.write_csv(table, tmp_path / "products.csv")
    return tmp_path / "products.csv"


@pytest.fixture
def built(source: Path, tmp_path: Path) -> Path:
    result = run("build", source, tmp_path / "r.arrow", "--key", "id", "--page-bytes", "1KB")
    assert result.exit_code == 0, result.output
    return tmp_path / "r.arrow"


def test_build_as_text(built: Path, source: Path, tmp_path: Path) -> None:
    result = run("build", source, tmp_path / "r.arrow", "--key", "id", "--memory", "1MB")
    assert result.exit_code == 0
    assert "2,000" in result.stdout
    assert "id  int64" in result.stdout
    assert result.stderr == ""
    with PageFileMaster(built) as master:
        assert master.num_rows == 2_000


def test_build_as_json(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.arrow"
    result = run("build", source, target, "--key", "id", "--key", "name", "--output", "json")
    described = json.loads(result.stdout)
    assert described["key"] == ["id", "name"]
    assert described["rows"] == 2_000
    with PageFileMaster(target) as master:
        assert described == master.info().to_dict()


def test_build_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for part in range(3):
        pyarrow.parquet.write_table(
            pa.table({"id": range(part * 10, part * 10 + 10)}),
            tmp_path / "parts" / f"{part}.parquet",
        )
    result = run("build", tmp_path / "parts", tmp_path / "r.arrow", "--key", "id")
    assert result.exit_code == 0
    with PageFileMaster(tmp_path / "r.arrow") as master:
        assert master.num_rows == 30


def test_build_from_a_file_of_another_kind(tmp_path: Path) -> None:
    """Delimiter, encoding and types as the options say; commas and repetition mean the same."""
    (tmp_path / "shops.txt").write_bytes("land;zip;näme\nAT;01;Café\n".encode("cp1252"))
    options = ["--delimiter", ";", "--encoding", "cp1252"]
    for given in (
        ["--key", "land,zip", "--type", "zip=int32,land=large_string"],
        ["--key", "land", "--key", "zip", "--type", "zip=int32", "--type", "land=large_string"],
    ):
        result = run("build", tmp_path / "shops.txt", tmp_path / "r.arrow", *options, *given)
        assert result.exit_code == 0, result.output
        with PageFileMaster(tmp_path / "r.arrow") as master:
            assert master.key == ("land", "zip")
            assert master.schema.names == ["land", "zip", "näme"]
            assert master.schema.types == [pa.large_string(), pa.int32(), pa.string()]
    kept = run("build", tmp_path / "shops.txt", tmp_path / "r.arrow", *options, "--key", "zip")
    assert "zip  string" in kept.stdout


def test_a_key_whose_name_has_a_comma(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text('"a,b",a,b\n1,2,3\n')
    run("build", tmp_path / "r.csv", tmp_path / "r.arrow", "--key", "a,b")
    with PageFileMaster(tmp_path / "r.arrow") as master:
        assert master.key == ("a,b",)


@pytest.mark.parametrize(
    ("given", "types"),
    [
        (["a=string"], {"a": "string"}),
        (["a=decimal(12,2),b = int64"], {"a": "decimal(12,2)", "b": "int64"}),
        (
            ["a=timestamp[us, tz=UTC],b=date", "c=int8"],
            {"a": "timestamp[us, tz=UTC]", "b": "date", "c": "int8"},
        ),
    ],
)
def test_types_as_they_are_written(given: list[str], types: dict[str, str]) -> None:
    assert _types(given) == types


def test_one_is_written_as_one(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("id,v\n1,2\n,3\n")
    built = run("build", tmp_path / "r.csv", tmp_path / "r.arrow", "--key", "id")
    checked = run("verify", tmp_path / "r.arrow")
    assert "1 row without a key" in built.stdout
    assert checked.stdout.endswith("intact, 1 page with 1 row.\n")


@pytest.mark.parametrize("wrong", ["zip", "zip=", "=string", "zip:string"])
def test_what_is_no_type_of_a_column_is_a_wrong_command_line(source: Path, wrong: str) -> None:
    result = run("build", source, source.with_name("r.arrow"), "--key", "id", "--type", wrong)
    assert result.exit_code == 2
    assert "--type zip=string" in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        (["--key", "idd"], SchemaError, "Did you mean 'id'"),
        (["--key", "id", "--memory", "lots"], BudgetError, "'lots' is not a size"),
        (["--key", "id", "--page-bytes", "1"], BudgetError, "out of range"),
        (["--key", "id", "--no-overwrite"], MasterError, "exists already"),
        (["--key", "id,nmae"], SchemaError, "has no column 'nmae'"),
        (["--key", "id", "--type", "id=itn64"], OptionError, "Did you mean 'int64'"),
        (["--key", "id", "--type", "ID=int64"], SchemaError, "Did you mean 'id'"),
        (["--key", "id", "--encoding", "utf-99"], OptionError, "encoding='utf-99'"),
        (["--key", "id", "--delimiter", ";;"], OptionError, "delimiter=';;'"),
    ],
)
def test_build_refuses(
    source: Path, built: Path, options: list[str], error: type[Exception], says: str
) -> None:
    result = run("build", source, built, *options)
    assert result.exit_code == 1
    assert isinstance(result.exception, error)
    assert says in str(result.exception)
    with PageFileMaster(built) as master:
        assert master.num_rows == 2_000


def test_build_without_a_key_is_a_wrong_command_line(source: Path, tmp_path: Path) -> None:
    result = run("build", source, tmp_path / "r.arrow")
    assert result.exit_code == 2
    assert "--key" in result.stderr


def test_info(built: Path) -> None:
    text = run("info", built)
    assert text.exit_code == 0
    assert "2,000" in text.stdout
    described = json.loads(run("info", built, "--output", "json").stdout)
    with PageFileMaster(built) as master:
        assert described == master.info().to_dict()
    missing = run("info", built.with_name("nowhere"))
    assert missing.exit_code == 1
    assert isinstance(missing.exception, MasterError)


def test_verify(built: Path) -> None:
    text = run("verify", built)
    assert text.exit_code == 0
    assert "with 2,000 rows." in text.stdout
    assert text.stderr == ""
    answer = json.loads(run("verify", built, "--output", "json").stdout)
    assert answer["intact"] is True
    assert answer["rows"] == 2_000


def test_verify_names_the_first_bad_page(built: Path) -> None:
    with PageFileMaster(built) as master:
        at = int(master.index.offsets[7]) + 300
    damaged = bytearray(built.read_bytes())
    damaged[at] ^= 1
    built.write_bytes(damaged)
    text = run("verify", built)
    assert text.exit_code == 1
    assert isinstance(text.exception, CorruptMasterError)
    assert str(text.exception).startswith("page 7 of ")
    machine = run("verify", built, "--output", "json")
    assert machine.exit_code == 1
    answer = json.loads(machine.stdout)
    assert answer["intact"] is False
    assert answer["problem"].startswith("page 7 of ")


@pytest.mark.parametrize("command", ["build", "info", "verify"])
def test_help_teaches_by_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"penstock master {command}" in result.stdout


def test_in_earnest(source: Path, tmp_path: Path) -> None:
    """Through the installed command: one line of error, no traceback, nothing else on stdout."""
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "master"]
    good = subprocess.run(
        [*command, "build", source, tmp_path / "r.arrow", "--key", "id", "--output", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(good.stdout)["rows"] == 2_000
    assert good.stderr == ""
    bad = subprocess.run(
        [*command, "info", tmp_path / "nowhere"], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 1
    assert bad.stdout == ""
    assert bad.stderr.count("\n") == 1
    assert "there is no file" in bad.stderr
