"""Java is found, or the error says what to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import MissingPackageError
from penstock.spark import java

pytestmark = pytest.mark.one_spark  # none is started


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(java, "_PLACES", (str(tmp_path / "jvm"),))
    return tmp_path / "jvm"


def test_versions_are_read(tmp_path: Path) -> None:
    assert java.java_version(fake_java(tmp_path / "a", "17.0.15")) == 17
    assert java.java_version(fake_java(tmp_path / "b", "1.8.0_402")) == 8
    assert java.java_version(tmp_path / "c") is None


def test_java_home_decides(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "mine", "21.0.1")
    assert java.find_java({"JAVA_HOME": str(home)}) == home
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(MissingPackageError, match=r"old holds Java 11; Spark needs Java 17"):
        java.find_java({"JAVA_HOME": str(old)})
    with pytest.raises(MissingPackageError, match="holds no Java that runs"):
        java.find_java({"JAVA_HOME": str(tmp_path)})


def test_the_best_of_several(tmp_path: Path, nowhere_else: Path) -> None:
    newest = fake_java(nowhere_else / "25", "25")
    assert java.find_java({"PATH": ""}) == newest
    fit = fake_java(nowhere_else / "x17", "17.0.1")
    assert java.find_java({"PATH": ""}) == fit
    on_path = fake_java(tmp_path / "path", "21.0.3")
    assert java.find_java({"PATH": str(on_path / "bin")}) == on_path


def test_none(monkeypatch: pytest.MonkeyPatch, nowhere_else: Path) -> None:
    monkeypatch.setattr(java.shutil, "which", lambda tool, path=None: tool == "apt-get" or None)
    monkeypatch.setattr(java, "_homes", lambda environment: iter(()))
    with pytest.raises(MissingPackageError, match=r"there is no Java.*type: sudo apt-get install"):
        java.find_java({})
    monkeypatch.setattr(java.shutil, "which", lambda tool, path=None: None)
    with pytest.raises(MissingPackageError, match="or install OpenJDK 17"):
        java.find_java({})
