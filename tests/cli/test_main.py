"""The command as a whole: what it says when something is wrong, and how it ends."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import penstock
from penstock import cli
from penstock.cli import commands
from penstock.errors import BudgetError

COMMAND = [sys.executable, "-c", "from penstock.cli import main; main()"]


def ended_with(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[object, str]:
    """The exit code and what standard error got when the command raises this."""

    def fail() -> None:
        raise error

    handlers = {number: signal.getsignal(number) for number in cli._ENDINGS}
    monkeypatch.setattr(commands, "app", fail)
    try:
        with pytest.raises(SystemExit) as end:
            cli.main()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    said = capsys.readouterr()
    assert said.out == ""
    return end.value.code, said.err


def test_version() -> None:
    result = CliRunner().invoke(commands.app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"penstock {penstock.__version__}\n"


def test_help_names_the_commands() -> None:
    result = CliRunner().invoke(commands.app, ["--help"])
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
    monkeypatch.setattr(commands, "app", fail)
    with pytest.raises(BudgetError, match="too small"):
        cli._run()


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(commands, "app", fail)
    with pytest.raises(ZeroDivisionError):
        cli._run()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "penstock: stopped.\n"),
        (SystemExit(130), 130, "penstock: stopped.\n"),
        (SystemExit(3), 3, ""),
        (SystemExit(None), None, ""),
    ],
)
def test_codes(
    error: BaseException,
    code: object,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended_with(error, monkeypatch, capsys) == (code, said)


@pytest.mark.parametrize("asked", [["run", "--schema"], ["--version"]])
@pytest.mark.parametrize(
    ("to", "said"),
    [
        (">&-", "penstock: standard output is closed. Send it somewhere: > /dev/null.\n"),
        ("> /dev/full", "penstock: cannot write the output: No space left on device.\n"),
    ],
)
def test_output_that_cannot_be_written(asked: list[str], to: str, said: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    done = subprocess.run(
        f"{shlex.join([*COMMAND, *asked])} {to}",
        shell=True,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, said)


INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from penstock.cli import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "penstock.cli.commands", "numba", "pyarrow.lib"])
def test_an_interrupt_while_modules_are_imported_is_one_line(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(module=module), "master", "info", "nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "penstock: stopped.\n")


def test_a_process_that_ignores_interrupts_goes_on_ignoring_them() -> None:
    program = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + INTERRUPTED
    done = subprocess.run(
        [sys.executable, "-c", program.format(module="typer"), "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


TIDYING = """
import os, signal, time
import penstock.cli.commands as commands

def app():
    try:
        os.kill(os.getpid(), signal.{first})
        time.sleep(30)
    finally:
        os.kill(os.getpid(), signal.{second})
        time.sleep(0.05)
        print("tidy")

commands.app = app
from penstock.cli import main
main()
"""


@pytest.mark.parametrize("second", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("first", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_second_signal_does_not_disturb_the_tidying(first: str, second: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TIDYING.format(first=first, second=second)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 128 + signal.Signals[first]
    assert done.stdout == "tidy\n"
    assert done.stderr == ("penstock: stopped.\n" if first == "SIGINT" else "")


@pytest.mark.parametrize(
    "command", [[], ["master"], ["bench"], ["master", "build"], ["bench", "join"]]
)
def test_help_fits_a_terminal_of_80_columns(command: list[str]) -> None:
    shown = CliRunner().invoke(commands.app, [*command, "--help"], env={"COLUMNS": "80"})
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in shown.stdout


def examples(command: list[str]) -> list[str]:
    """What `--help` shows as examples at 80 columns, as a shell would read them."""
    shown = CliRunner().invoke(commands.app, [*command, "--help"], env={"COLUMNS": "80"})
    text = shown.stdout.partition("Examples")[2].replace("\\", " ")
    joined = re.sub(r" +\n +(--)", r" \1", text)
    return re.findall(r"^ +(penstock .*\S)", joined, re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "count"), [(["master", "build"], 4), (["bench", "join"], 3)], ids=str
)
def test_examples_are_whole_when_pasted(command: list[str], count: int) -> None:
    """No line is broken but where a backslash says so, and every option is one that exists."""
    shown = CliRunner().invoke(commands.app, [*command, "--help"]).stdout
    found = examples(command)
    assert len(found) == count
    for example in found:
        words = shlex.split(example)
        assert words[1:3] == command
        options = [word for word in words if word.startswith("--")]
        assert options
        assert [option for option in options if f"{option} " not in shown] == []


def test_a_wrong_command_line_ends_with_2() -> None:
    done = subprocess.run([*COMMAND, "bench", "jion"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "jion" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--memory", "lots"),
        ("--memory", "1KB"),
        ("--page-bytes", "1TB"),
        ("--delimiter", ";;"),
        ("--encoding", "klingon"),
        ("--type", "zip=strng"),
    ],
)
def test_a_wrong_value_of_an_option_ends_with_2(
    option: str,
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "r.csv").write_text("zip\n1\n")
    target = tmp_path / "r.arrow"
    build = ["penstock", "master", "build", str(tmp_path / "r.csv"), str(target), "--key", "zip"]
    monkeypatch.setattr(sys, "argv", [*build, option, value])
    assert cli._run() == 2
    said = capsys.readouterr().err
    assert said.startswith("penstock: ")
    assert said.count("\n") == 1
    assert not target.exists()


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
