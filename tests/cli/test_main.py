"""The command as a whole: what it says when something is wrong, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import penstock
from penstock import cli
from penstock.errors import BudgetError

COMMAND = [sys.executable, "-c", "from penstock.cli import main; main()"]


def ended_with(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[object, str]:
    """The exit code and what standard error got when the command raises this."""

    def fail() -> None:
        raise error

    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(cli, "app", fail)
    try:
        with pytest.raises(SystemExit) as end:
            cli.main()
    finally:
        signal.signal(signal.SIGTERM, handler)
    said = capsys.readouterr()
    assert said.out == ""
    return end.value.code, said.err


def test_version() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"penstock {penstock.__version__}\n"


def test_help_names_the_commands() -> None:
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert "master" in result.stdout
    assert "bench" in result.stdout


def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PENSTOCK_TRACEBACK", raising=False)
    code, said = ended_with(BudgetError("too small;\n  raise it."), monkeypatch, capsys)
    assert code == 1
    assert said == "penstock: too small; raise it.\n"


def test_a_traceback_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise BudgetError("too small")

    monkeypatch.setenv("PENSTOCK_TRACEBACK", "1")
    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(BudgetError, match="too small"):
        cli._run()


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(ZeroDivisionError):
        cli._run()


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (SystemExit(3), 3), (SystemExit(None), None)]
)
def test_codes(
    error: BaseException,
    code: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended_with(error, monkeypatch, capsys) == (code, "")


def test_a_wrong_command_line_ends_with_2() -> None:
    done = subprocess.run([*COMMAND, "bench", "jion"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "jion" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    """Standard output is closed at its other end before anything is written."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "--version"], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert done.returncode != 0
    assert done.stderr == ""
