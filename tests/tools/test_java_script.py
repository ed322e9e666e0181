"""tools/java.sh: with programs that only pretend, what it installs and what it says."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "java.sh"
NEEDED = ("bash", "env", "mktemp", "rm", "tail", "grep", "cat", "touch", "sh")
Program = Callable[[str, str], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A PATH with nothing but the shell's tools; there is a Java when the file `java` is there."""
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return tmp_path


@pytest.fixture
def program(folder: Path) -> Program:
    def add(name: str, body: str) -> None:
        file = folder / name
        file.write_text(f"#!{shutil.which('sh')}\necho {name} $* >> {folder}/calls\n{body}\n")
        file.chmod(0o755)

    add("python", f"test -e {folder}/java || {{ echo 'there is no Java'; exit 1; }}")
    return add


def run(folder: Path, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [folder / "bash", SCRIPT, folder / "python"],
        env={"PATH": str(folder), "TMPDIR": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def calls(folder: Path) -> list[str]:
    lines = (folder / "calls").read_text().splitlines()
    return [line for line in lines if line.startswith(("apt-get", "dnf", "sudo", "brew"))]


def test_java_is_there(folder: Path, program: Program) -> None:
    (folder / "java").touch()
    program("apt-get", "exit 1")
    assert run(folder) == (0, "")
    assert calls(folder) == []


def test_root_installs_it(folder: Path, program: Program) -> None:
    program("id", "echo 0")
    program("dnf", f'test "$1" = install || exit 0\ntouch {folder}/java')
    code, said = run(folder)
    assert (code, calls(folder)[-1]) == (0, "dnf install --assumeyes java-17-openjdk-headless")
    assert (
        said == "Spark needs Java 17 or newer: dnf install --assumeyes java-17-openjdk-headless\n"
    )


def test_a_package_list_that_was_never_fetched(folder: Path, program: Program) -> None:
    """The first attempt fails; after an update there is another Java than the first choice."""
    program("id", "echo 0")
    program("apt-cache", f"test -e {folder}/list && test $2 = openjdk-21-jre-headless")
    program(
        "apt-get",
        f"test $1 = update && touch {folder}/list && exit 0\n"
        f"test -e {folder}/list && touch {folder}/java",
    )
    code, _ = run(folder)
    install = "apt-get install --yes --no-install-recommends openjdk"
    assert (code, calls(folder)) == (
        0,
        [f"{install}-17-jre-headless", "apt-get update", f"{install}-21-jre-headless"],
    )


def test_sudo_without_a_password(folder: Path, program: Program) -> None:
    program("id", "echo 1000")
    program("sudo", 'shift; test "$1" = true || "$@"')
    program("apt-cache", "exit 0")
    program("apt-get", f"touch {folder}/java")
    assert run(folder)[0] == 0
    assert calls(folder)[-1].startswith("apt-get install --yes")


def test_without_rights_it_says_what_to_type(folder: Path, program: Program) -> None:
    program("id", "echo 1000")
    program("sudo", "exit 1")
    program("apt-cache", "exit 0")
    program("apt-get", "exit 1")
    command = "sudo apt-get install --yes --no-install-recommends openjdk-17-jre-headless"
    assert run(folder) == (
        1,
        f"Spark needs Java 17 or newer, and there is none. Type:  {command}\n",
    )
    assert calls(folder) == ["sudo --non-interactive true"]


def test_an_installation_that_fails(folder: Path, program: Program) -> None:
    program("id", "echo 0")
    program("dnf", 'test "$1" = install || exit 0\necho no mirror; exit 1')
    code, said = run(folder)
    assert code == 1
    assert "no mirror" in said
    assert "type:  dnf install --assumeyes java-17-openjdk-headless" in said


def test_no_package_manager(folder: Path, program: Program) -> None:
    code, said = run(folder)
    assert code == 1
    assert "Install OpenJDK 17 (a JRE is enough) and set JAVA_HOME." in said


def test_brew_needs_no_root(folder: Path, program: Program) -> None:
    program("id", "echo 501")
    program("brew", f"touch {folder}/java")
    assert run(folder)[0] == 0
    assert calls(folder) == ["brew install openjdk@17"]


def test_a_java_home_that_is_wrong_is_told_not_mended(folder: Path, program: Program) -> None:
    program("id", "echo 0")
    program("apt-get", f"touch {folder}/java")
    assert run(folder, JAVA_HOME="/nowhere") == (1, "there is no Java\n")
    assert calls(folder) == []


def test_it_can_be_run() -> None:
    assert os.access(SCRIPT, os.X_OK)
