"""A password with any character in it, in any form of address: refused, and never shown."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import penstock
from penstock.cli.commands import app
from penstock.errors import OptionError
from penstock.joins import RootJoin
from penstock.masters.addresses import refuse_secrets, scrubbed, without_secrets
from penstock.masters.databases.address import TableAddress
from penstock.masters.lake.address import lake_address
from penstock.masters.opening import shown_address
from penstock.masters.page_file import PageFileMaster

DATABASES = [
    "postgresql://user:pa/s3cret@127.0.0.1/db?table=t",
    "postgresql://user:s3cret#x@127.0.0.1/db?table=t",
    "postgresql://user:s3cret?x@127.0.0.1/db&table=t",
    "postgresql://user:s3cret?x=1@127.0.0.1/db&table=t",
    "postgresql://user:12/s3cret@127.0.0.1/db?table=t",
    "postgresql://user:12?s3cret@127.0.0.1/db?table=t",
    "postgresql://user:s3cret@@127.0.0.1/db?table=t",
    "postgresql://user:a@s3cret/b@127.0.0.1/db?table=t",
    "postgresql://user%3As3cret@127.0.0.1:1/db?table=t",
    "postgresql:////user:s3cret@127.0.0.1/db?table=t",
    "postgresql:/user:s3cret@127.0.0.1/db?table=t",
    "postgresql://user:s3cret/db?table=t",
    "POSTGRESQL://u:s3cret@127.0.0.1/db?table=t",
    " postgresql://u:s3cret@127.0.0.1/db?table=t",
    "\n'postgresql://u:s3cret@127.0.0.1/db?table=t'",
    "postgres:u:s3cret@127.0.0.1/db?table=t",
    "jdbc:postgresql://u:s3cret@h/db?table=t",
    "jdbc:postgresql://h/db?user=u&password=s3cret",
    "jdbc:sqlserver://h;user=u;password=s3cret",
    "jdbc:oracle:thin:scott/s3cret@//h:1521/x",
    "mysql+pymysql://u:s3cret@h/db?table=t",
    "mysql://user:pa/s3cret@127.0.0.1/db?table=t",
    "mysql://u@127.0.0.1/db?table=t;password=s3cret",
    "postgresql://u@127.0.0.1/db?table=t;password=s3cret",
    "postgresql://u@127.0.0.1/db?table=t;pass%77ord%3Ds3cret",
    "postgresql://u@127.0.0.1/db;token:s3cret?table=t",
    "postgresql://u@127.0.0.1/db?table=t&sslpasword=s3cret",
    "postgresql://u@127.0.0.1/db?table=t&userr=s3cret",
    "mysql://u@127.0.0.1/db?table=t&userr=s3cret",
]


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _joined(address: str) -> object:
    return RootJoin(budget="1MB").build(address, pa.schema([("a", pa.int64())]), on="a")  # type: ignore[arg-type]


OPENERS: dict[str, Callable[[str], Any]] = {
    "open_master": penstock.open_master,
    "page file": PageFileMaster,
    "path": lambda address: penstock.open_master(Path(address)),
    "build_master": lambda address: penstock.build_master(address, "/nowhere/r.arrow", key="a"),
    "server": lambda address: TableAddress.parse(address).with_options({"table": "t"}),
    "plan": _joined,
}


def _is_told_when_opened(how: str, address: str) -> bool:
    """Parameters of MySQL's driver are looked at when it connects."""
    return how == "server" and "userr" in address and address.startswith("mysql")


@pytest.mark.parametrize(
    ("how", "address"),
    [(h, a) for h in OPENERS for a in DATABASES if not _is_told_when_opened(h, a)],
)
def test_refused_and_not_told(how: str, address: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(penstock.PenstockError) as told:
        OPENERS[how](address)
    assert "s3cret" not in _told(told.value) + repr(told.value) + caplog.text
    if how in ("open_master", "server"):
        assert isinstance(told.value, OptionError)


@pytest.mark.parametrize("address", DATABASES)
def test_nothing_that_is_shown_has_it(address: str) -> None:
    assert "s3cret" not in without_secrets(address)
    assert "s3cret" not in scrubbed(f"no such thing: {address}, or s3cret", address)
    assert "s3cret" not in shown_address(address)


@pytest.mark.parametrize("command", ["info", "verify", "plan", "calibrate", "tune", "build"])
def test_commands(command: str) -> None:
    arguments = {
        "info": ["master", "info"],
        "verify": ["master", "verify"],
        "build": ["master", "build"],
    }.get(command, [command])
    for address in DATABASES[:2] + DATABASES[10:17] + DATABASES[21:24]:
        more = ["/nowhere/r.arrow", "--key", "a"] if command == "build" else []
        more += ["--budget", "1MB"] if command == "plan" else []
        result = CliRunner().invoke(app, [*arguments, address, *more])
        assert result.exit_code
        assert "s3cret" not in result.output + str(result.exception), address


def test_keys_of_a_file_system() -> None:
    """They may be in an address if it is clear where they end."""
    for uri in (
        "s3://KEY:pa/s3cret@bucket/x.arrow",
        "s3://KEY:s3cret#x@bucket/x.arrow?region=y",
        "s3://KEY:b@s3cret/x@bucket/x.arrow",
        "delta+s3://KEY:pa/s3cret@bucket/x?key=id",
        "http://u:pa?s3cret@host/x.arrow",
    ):
        with pytest.raises(OptionError) as told:
            penstock.open_master(uri)
        assert "s3cret" not in _told(told.value)
        assert "s3cret" not in without_secrets(uri) + shown_address(uri) + repr(lake_address(uri))
        assert "s3cret" not in scrubbed("port 'pa', path '/s3cret@bucket'", uri)
    lake = lake_address("s3://KEY:s3cret@bucket/?key=id")
    assert lake is not None
    assert "s3cret" not in lake.name + str(lake) + repr(lake)
    bare = lake_address("s3://KEY:s3cret@bucket?key=id")
    assert bare is not None
    assert "s3cret" not in bare.name


def test_brackets_that_do_not_close() -> None:
    for uri in ("s3://KEY:]s3cret@bucket/x.arrow", "s3://[KEY/x.arrow", "file://[x/r.arrow"):
        with pytest.raises(OptionError, match="brackets"):
            penstock.open_master(uri)
        assert "s3cret" not in shown_address(uri)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me@db:5432,other:5433/shop?table=t&key=id",
        "postgresql://me@[::1]:5432/shop?table=t",
        "postgresql://%2Fvar%2Frun/shop?table=t&passfile=/home/me/.pgpass",
        "postgresql:///shop?host=/var/run&table=t&columns=token,secret",
        "postgresql://db:5432/shop?table=t&filter=mail LIKE '%25@b' AND at > '12:00'",
        "postgresql://db/shop?table=t&filter=token_kind%3D'a'",
        "mysql://me@db:3306/shop?table=t&read_default_file=/etc/my.cnf",
    ],
)
def test_what_has_no_secret(address: str) -> None:
    assert TableAddress.parse(address).table == "t"


def test_paths_are_no_addresses() -> None:
    for path in ("/data/a:b@c/token=1/r.arrow", "r:a@b", "./mysql:a:b@c", "file:///a:b@c"):
        refuse_secrets(path)
        assert without_secrets(path) == path
    assert without_secrets("s3://bucket/day@1/r.arrow") == "s3://bucket/day@1/r.arrow"


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("postgresql://[::1/db?table=t", "brackets"),
        ("mysql://[::1/db?table=t", "brackets"),
        ("postgresql://::1/db?table=t", "port"),
        ("mysql://h:99999/db?table=t", "port"),
        ("mysql://h:0/db?table=t", "port"),
        ("mysql://h:abc/db?table=t", "port"),
        ("postgresql://h:99999/db?table=t", "port"),
        ("postgresql://h:abc/db?table=t", "port"),
        ("postgresql://a,h:abc/db?table=t", "port"),
        ("postgresql:///db?table=t&host=h&port=abc", "port"),
        (f"postgresql://{'h' * 70}.example/db?table=t", "70 between two dots"),
        (f"mysql://{'h' * 70}/db?table=t", "70 between two dots"),
        (f"postgresql:///db?table=t&host={'h' * 70}", "70 between two dots"),
        ("mysql://a,b/db?table=t", "one host"),
        ("postgresql://h h/db?table=t", "blanks"),
        ("postgresql://h/%00?table=t", "character"),
        ("mysql://h/db?table=t#x", "%23"),
        ("postgresql:u@h/db?table=t", "looks like"),
        (" postgresql://u@h/db?table=t", "looks like"),
        ("jdbc:mysql://h/db?table=t", "looks like"),
        ("postgresql://h/db?tabel=t", "Did you mean 'table'"),
    ],
)
def test_what_can_never_be_a_server(address: str, fault: str) -> None:
    with pytest.raises(OptionError, match=fault):
        penstock.open_master(address)


def test_pipelines(tmp_path: Path) -> None:
    from penstock.pipeline.reading import read_pipeline

    file = tmp_path / "p.toml"
    for address in DATABASES:
        if "userr" in address or "sslpasword" in address:
            continue
        file.write_text(
            'name = "x"\ncheckpoint = "c"\n[source]\nkind = "json"\npath = "in"\n'
            'columns = "a INT"\n[[sink]]\nkind = "postgresql"\ntable = "t"\n'
            f"server = {json.dumps(address)}\n"
            f'[[enrich]]\non = "a"\nmaster = {json.dumps(address)}\n'
        )
        with pytest.raises(OptionError) as told:
            read_pipeline(file)
        assert "s3cret" not in _told(told.value)
        assert "sink.0.server" in str(told.value)
