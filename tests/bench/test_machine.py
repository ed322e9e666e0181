from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from penstock.bench.machine import commit, describe
from penstock.bench.resident import ResidentGrowth


def test_machine_and_versions() -> None:
    said = describe()
    assert said["cores"] >= 1
    assert said["memory_bytes"] > 2**28
    assert said["packages"]["numpy"] == np.__version__
    assert {"duckdb", "pyspark"} <= said["packages"].keys()
    assert all(said[name] for name in ("processor", "system", "python", "sqlite"))


def test_the_commit_and_whether_files_differ(tmp_path: Path) -> None:
    assert commit(tmp_path) is None
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    (tmp_path / "file").write_text("1")
    for words in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    clean = commit(tmp_path)
    assert clean is not None
    assert len(clean) == 40
    (tmp_path / "file").write_text("2")
    assert commit(tmp_path) == f"{clean}-dirty"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells")
def test_growth_is_seen_and_its_most_is_kept() -> None:
    growth = ResidentGrowth()
    held = np.ones(30_000_000, dtype=np.uint8)
    growth.sample()
    assert growth.most is not None
    assert 25_000_000 < growth.most < 60_000_000
    most = growth.most
    del held
    growth.sample()
    assert growth.most == most
