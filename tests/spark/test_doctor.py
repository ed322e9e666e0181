"""Each of the doctor's checks: what it finds, and what it says when something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.doctor import machine, programs, settings
from penstock.spark.doctor.findings import Finding
from penstock.spark.doctor.settings import NO_DATA, PROVIDER, REUSE, ROCKSDB, read_settings

pytestmark = pytest.mark.one_spark  # none is started


def test_whoever_complains_gives_advice() -> None:
    with pytest.raises(ValueError, match="fail without advice"):
        Finding("Java", "fail", "none")


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        ("4.0.5", "ok"),
        ("4.2.0", "ok"),
        ("4.3.1", "ok"),
        ("4.1.1", "warn"),
        ("5.0.0", "warn"),
        ("3.5.9", "fail"),
        (None, "fail"),
    ],
)
def test_spark(version: str | None, verdict: str) -> None:
    found = programs.spark_finding(version)
    assert found.verdict == verdict
    assert ("pip install" in found.advice) == (verdict != "ok")


def test_the_versions_that_are_tested_are_those_of_the_locks() -> None:
    root = Path(__file__).parents[2]
    locked = (root / "requirements.lock").read_text()
    assert f"pyspark=={programs.LOCKED_SPARK} " in locked or (
        f"pyspark[connect]=={programs.LOCKED_SPARK} " in locked
    )
    others = {file.stem.rpartition("-")[2] for file in root.glob("requirements-spark-*.lock")}
    assert others | {programs.LOCKED_SPARK.rpartition(".")[0]} == set(programs.TESTED_SPARK)


def test_other_programs(tmp_path: Path) -> None:
    assert programs.python_finding((3, 10, 1)).verdict == "ok"
    assert programs.python_finding((3, 9, 18)).verdict == "fail"
    assert programs.arrow_finding("21.0.0").verdict == "ok"
    assert programs.arrow_finding("20.0.0").verdict == "fail"
    assert programs.arrow_finding(None).found == "not installed"
    assert programs.pandas_finding("2.3.3").verdict == "ok"
    assert programs.pandas_finding("3.0.0").verdict == "fail"
    assert programs.pandas_finding(None).verdict == "fail"
    missing = programs.java_finding({"JAVA_HOME": str(tmp_path)})
    assert missing.verdict == "fail"
    assert "Spark needs Java 17 or newer" in missing.advice
    java = tmp_path / "new" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"25\"' >&2\n")
    java.chmod(0o755)
    untested = programs.java_finding({"JAVA_HOME": str(tmp_path / "new")})
    assert (untested.verdict, untested.found) == ("warn", f"25 in {tmp_path / 'new'}")


def test_settings_come_from_the_file_and_from_what_is_given(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        f"# ours\n{PROVIDER} {ROCKSDB}\n{NO_DATA}=false\nspark.local.dir:  /scratch , /more\n"
    )
    found = read_settings({NO_DATA: "true"}, {"SPARK_CONF_DIR": str(tmp_path)})
    assert found[PROVIDER] == ROCKSDB
    assert found.origin(PROVIDER) == str(tmp_path / "spark-defaults.conf")
    assert (found[NO_DATA], found.origin(NO_DATA)) == ("true", "given")
    assert (found[REUSE], found.origin(REUSE)) == ("true", "Spark's default")
    assert machine.temporary_folders(found, {})[:2] == [Path("/scratch"), Path("/more")]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.a b")
    assert read_settings({}, {"SPARK_HOME": str(tmp_path)}).values == {"spark.a": "b"}
    assert read_settings({}, {"SPARK_CONF_DIR": str(tmp_path / "none")}).values == {}


def test_what_the_settings_mean(tmp_path: Path) -> None:
    nothing = {"SPARK_CONF_DIR": str(tmp_path)}
    as_it_comes = {f.name: f for f in settings.setting_findings(read_settings({}, nothing))}
    assert {name: f.verdict for name, f in as_it_comes.items()} == {
        "state store": "warn",
        "no-data batches": "ok",
        "worker reuse": "ok",
    }
    assert f"{PROVIDER}={ROCKSDB}" in as_it_comes["state store"].advice
    given = {PROVIDER: ROCKSDB, NO_DATA: "False", REUSE: "false"}
    other = {f.name: f for f in settings.setting_findings(read_settings(given, nothing))}
    assert [f.verdict for f in other.values()] == ["ok", "warn", "warn"]
    assert f"leave {NO_DATA} true" in other["no-data batches"].advice


def test_spark_itself_has_these_defaults(spark: object) -> None:
    """The session is Penstock's own, which sets the state store; the others it leaves alone."""
    conf = spark.conf  # type: ignore[attr-defined]
    assert conf.get(NO_DATA) == settings.DEFAULTS[NO_DATA]


def test_direct_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = "penstock.masters.aligned_reads.use_direct"
    monkeypatch.setattr(target, lambda file: True)
    assert machine.direct_finding(tmp_path).verdict == "ok"
    monkeypatch.setattr(target, lambda file: False)
    found = machine.direct_finding(tmp_path)
    assert (found.verdict, "O_DIRECT" in found.found) == ("warn", True)
    assert machine.direct_finding(tmp_path / "nowhere").verdict == "warn"
    assert list(tmp_path.iterdir()) == []


def test_temporary_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.folder_finding("temporary", tmp_path).verdict == "ok"
    missing = machine.folder_finding("temporary", tmp_path / "nowhere")
    assert missing.verdict == "fail"
    assert "SPARK_LOCAL_DIRS" in missing.advice
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 5_000_000}))
    full = machine.folder_finding("temporary", tmp_path)
    assert (full.verdict, full.found) == ("warn", f"{tmp_path}, 5.0 MB free")


def test_memory(tmp_path: Path) -> None:
    info, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    assert machine.available_memory(info, limit) is None
    info.write_text("MemTotal:  9 kB\nMemAvailable:    4000000 kB\n")
    assert machine.available_memory(info, limit) == 4_096_000_000
    limit.write_text("max\n")
    assert machine.available_memory(info, limit) == 4_096_000_000
    limit.write_text("500000000\n")
    assert machine.available_memory(info, limit) == 500_000_000
    assert machine.memory_finding(4_096_000_000).verdict == "ok"
    assert machine.memory_finding(500_000_000).verdict == "warn"
    assert machine.memory_finding(None).verdict == "ok"


def test_the_machines_name() -> None:
    def unknown(name: str) -> str:
        raise OSError(name)

    assert machine.name_finding({}, "here", lambda name: "10.0.0.1").found == "here is 10.0.0.1"
    lost = machine.name_finding({}, "here", unknown)
    assert (lost.verdict, "SPARK_LOCAL_IP=127.0.0.1" in lost.advice) == ("warn", True)
    assert machine.name_finding({"SPARK_LOCAL_IP": "127.0.0.1"}, "here", unknown).verdict == "ok"


def test_jars_of_connectors(tmp_path: Path) -> None:
    """What a pipeline would miss is named; nobody else needs it."""
    environment = {"PENSTOCK_JARS": str(tmp_path)}
    finding = programs.jars_finding("delta", environment)
    assert finding.verdict == "ok"
    assert "delta-spark, delta-storage not in" in finding.found
    for name in ("delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"):
        (tmp_path / name).touch()
    assert programs.jars_finding("delta", environment).found == f"2 in {tmp_path}"
