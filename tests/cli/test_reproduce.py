"""`penstock reproduce` as a command: what it writes, how it goes on, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

FIGURE = """
paper = "penstock"
figure = ""
title = "By skew"
[case]
rows = 40_000
budget = "4MB"
[x]
field = "skew"
label = "Zipf exponent"
values = [0.5, 1.0]
[[series]]
join = "meshjoin"
[[series]]
join = "rootjoin"
[[claims]]
text = "ROOTJOIN is ahead"
check = "ahead"
series = "rootjoin"
of = "meshjoin"
"""
MORE = "values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3]"
HERE = Path(sys.executable).parent


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(FIGURE)
    return path


def command(*arguments: object) -> list[str]:
    return [str(HERE / "penstock"), "reproduce", *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=120, check=False
    )


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "points").glob("*.json")}


def points_after(process: subprocess.Popen[Any], folder: Path, wanted: int) -> int:
    """Wait until so many points are there, or it has ended."""
    until = time.monotonic() + 60
    while len(files(folder)) < wanted and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    return len(files(folder))


def left_over(folder: Path) -> list[str]:
    """Processes whose command line names this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                said = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in said:
                found.append(said)
    return found


def test_a_figure_of_ones_own_is_run_judged_and_reported_and_not_run_again(
    mine: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "there"
    first = run(mine, "--clock", "counted", "--output", folder, "--png")
    assert first.returncode == 0, first.stderr
    assert "mine.1" in first.stdout
    assert "1 claim: 1 reproduced." in first.stdout
    (verdict,) = json.loads((folder / "verdicts.json").read_text())
    assert verdict["id"] == "mine.1"
    assert verdict["verdict"] == "reproduced"
    assert verdict["clocks"] == ["counted"]
    result: dict[str, Any] = json.loads((folder / "figures" / "mine.json").read_text())
    assert result["machine"]["cores"] >= 1
    assert result["machine"]["packages"]["penstock"]
    assert (result["clocks"], result["thin"]) == (["counted"], False)
    assert len(result["rows"]) == 4
    page = (folder / "verdicts.md").read_text()
    assert "| mine | small, counted | " in page
    assert "ROOTJOIN is ahead" in (folder / "report.html").read_text()
    assert (folder / "png" / "mine.png").stat().st_size > 1_000
    assert not (folder / "penstock-work").exists()
    before = files(folder)
    again = run(mine, "--clock", "counted", "--output", folder, "--format", "json")
    assert json.loads(again.stdout)[0]["verdict"] == "reproduced"
    assert files(folder) == before
    assert len(before) == 4


def test_stopped_it_says_how_to_go_on_and_goes_on(mine: Path, tmp_path: Path) -> None:
    mine.write_text(FIGURE.replace("values = [0.5, 1.0]", MORE))
    folder = tmp_path / "there"
    arguments = (mine, "--clock", "counted", "--output", folder)
    with subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True) as process:
        assert points_after(process, folder, 3) >= 3
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    kept = files(folder)
    assert f"{len(kept)} points are kept in {folder}; the same command goes on" in said
    assert 3 <= len(kept) < 28
    assert not left_over(folder)
    none = run("--only-report", "--output", folder)
    assert none.returncode == 1
    assert "no results of whole figures" in none.stderr
    done = run(*arguments)
    assert done.returncode == 0
    assert f"counted: {28 - len(kept)} to run" in done.stderr
    assert kept.items() <= files(folder).items()


def test_a_run_that_was_killed_leaves_whole_points_and_no_processes(
    mine: Path, tmp_path: Path
) -> None:
    mine.write_text(FIGURE.replace("values = [0.5, 1.0]", MORE))
    folder = tmp_path / "there"
    arguments = (mine, "--clock", "counted", "--output", folder)
    with subprocess.Popen(command(*arguments), stderr=subprocess.DEVNULL) as process:
        assert points_after(process, folder, 3) >= 3
        process.kill()
    until = time.monotonic() + 20
    while left_over(folder) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left_over(folder)
    kept = [*(folder / "points").glob("*.json")]
    assert len(kept) >= 3
    assert all(json.loads(path.read_text())["values"] for path in kept)
    assert run(*arguments).returncode == 0


def test_what_is_damaged_is_run_again_or_named(mine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    arguments = (mine, "--clock", "counted", "--output", folder)
    assert run(*arguments).returncode == 0
    point = next((folder / "points").glob("*.json"))
    point.write_text(point.read_text()[:40])
    again = run(*arguments)
    assert "counted: 1 to run" in again.stderr
    (folder / "figures" / "other.json").write_text("{")
    refused = run(*arguments)
    assert refused.returncode == 1
    assert "other.json is no figure's results" in refused.stderr


def test_points_of_another_version_are_used_and_said(mine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    arguments = (mine, "--clock", "counted", "--output", folder)
    said = run(*arguments).stderr
    assert "another version" not in said
    point = next((folder / "points").glob("*.json"))
    content = json.loads(point.read_text())
    elsewhere = {**content["machine"], "processor": "another"}
    point.write_text(json.dumps({**content, "commit": "0" * 40, "machine": elsewhere}))
    again = run(*arguments)
    assert "1 point in" in again.stderr
    assert "was run by another version of penstock, and will be used; --again runs" in again.stderr
    result = json.loads((folder / "figures" / "mine.json").read_text())
    machines = [result["machine"], *result["other_machines"]]
    assert {machine["processor"] for machine in machines} == {
        "another",
        content["machine"]["processor"],
    }
    assert "0" * 40 in result["commits"]


def test_two_runs_in_one_folder_are_refused(mine: Path, tmp_path: Path) -> None:
    mine.write_text(FIGURE.replace("values = [0.5, 1.0]", MORE))
    folder = tmp_path / "there"
    arguments = (mine, "--clock", "counted", "--output", folder)
    with subprocess.Popen(command(*arguments), stderr=subprocess.DEVNULL) as process:
        points_after(process, folder, 1)
        second = run(*arguments)
        process.terminate()
    assert second.returncode == 1
    assert "another run is at work in" in second.stderr


def test_what_cannot_be_run_is_told_and_the_others_are_written(mine: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    small = FIGURE.replace("rows = 40_000", 'rows = 400\nworkload = "tpch"')
    wrong.write_text(small.replace("values = [0.5, 1.0]", "values = [1.0]"))
    folder = tmp_path / "there"
    done = run(mine, wrong, "--clock", "counted", "--output", folder)
    assert done.returncode == 1
    assert "2 of 6 runs failed. Not written: wrong. What is done is kept." in done.stderr
    assert "1 claim: 1 reproduced." in done.stdout
    assert [path.name for path in (folder / "figures").iterdir()] == ["mine.json"]


def test_poorer_results_replace_none_that_say_more(mine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    mine.write_text(FIGURE.replace("values = [0.5, 1.0]", "values = [0.0, 0.5, 1.0, 1.2]"))
    arguments = (mine, "--clock", "counted", "--output", folder)
    assert run(*arguments).returncode == 0
    written = (folder / "figures" / "mine.json").read_bytes()
    thinner = run(*arguments, "--thin")
    assert thinner.returncode == 1
    assert "has mine at small scale, which says more than this run would" in thinner.stderr
    assert (folder / "figures" / "mine.json").read_bytes() == written
    assert run(*arguments, "--thin", "--again").returncode == 0
    assert json.loads((folder / "figures" / "mine.json").read_text())["thin"]
    assert run(*arguments).returncode == 0  # the fuller one takes its place
    shown = run("--only-report", "--output", folder)
    assert "1 claim: 1 reproduced." in shown.stdout


def test_a_report_that_cannot_be_written_leaves_the_old_one(mine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    assert run(mine, "--clock", "counted", "--output", folder).returncode == 0
    report = folder / "report.html"
    before = report.read_bytes()
    limited = ["bash", "-c", 'ulimit -f 100; trap "" XFSZ; exec "$@"', "bash"]
    failed = subprocess.run(
        [*limited, *command("--only-report", "--output", folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert failed.returncode == 1
    assert f"cannot write {report}: File too large" in failed.stderr
    assert report.read_bytes() == before


def test_words_that_a_terminal_cannot_show_stop_nothing(mine: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(mine, "--clock", "counted", "--output", tmp_path / "there"),
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert b"1 claim: 1 reproduced." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["000-6z"], 1, "no figure has the id '000-6z'. Did you mean '000-6"),
        (["nowhere.toml"], 1, "cannot read nowhere.toml: No such file"),
        (["--output", ""], 2, "it is empty; name a folder"),
        (["004-8b", "--output", "/proc/there"], 1, "cannot write to the folder /proc/there"),
        (["--scale", "huge"], 2, "huge"),
    ],
)
def test_wrong_command_lines(arguments: list[str], code: int, told: str) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_the_list_says_how_many_runs_a_figure_is() -> None:
    done = run("--list", "004-8")
    assert done.returncode == 0
    assert "004-8b" in done.stdout
    assert "HYBRIDJOIN for near-real-time" in " ".join(done.stdout.split())
    assert "000-3" not in done.stdout
    listed = json.loads(run("--list", "004-8b", "--format", "json").stdout)
    assert [one["id"] for one in listed] == ["004-8b"]


def test_a_figure_without_this_clock_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    done = run("004-T1", "--clock", "measured", "--output", folder, "--format", "json")
    verdicts = json.loads(done.stdout)
    assert len(verdicts) == 3
    for verdict in verdicts:
        assert verdict["verdict"] == "not judged"
        assert verdict["said"].endswith("; this figure is counted only")
