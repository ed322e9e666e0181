"""The wheel, installed without extras into an empty environment, joins a stream with a table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"

# One worker, so that the wheel is built and installed once.
pytestmark = pytest.mark.xdist_group("wheel")

JOIN = """
import sys
import pyarrow as pa
import penstock

unwanted = {"pandas", "polars", "pyspark", "rich", "typer"} & set(sys.modules)
assert not unwanted, f"importing penstock imported {sorted(unwanted)}"

products = pa.table({
    "product_id": pa.array(range(1000), pa.int64()),
    "price": pa.array([3 * i + 1 for i in range(1000)], pa.int64()),
})
penstock.build_master(products, "products.arrow", key="product_id")
master = penstock.open_master("products.arrow")

keys = [7, 999, None, 0, 7, 5000, -1, *range(1000)]
batch = pa.record_batch({
    "event_id": pa.array(range(len(keys)), pa.int64()),
    "product_id": pa.array(keys, pa.int64()),
})
plan = penstock.joins.RootJoin(budget="4MB")
join = plan.build(master, batch.schema, on="product_id", on_miss="null")
out = pa.Table.from_batches([*join.push(batch), *join.flush()])

joined = out.select(["event_id", "product_id", "price"]).sort_by("event_id").to_pylist()
prices = [3 * k + 1 if k is not None and 0 <= k < 1000 else None for k in keys]
expected = [
    {"event_id": i, "product_id": k, "price": p} for i, (k, p) in enumerate(zip(keys, prices))
]
assert joined == expected, f"{len(joined)} rows joined, {len(expected)} expected: {joined[:8]}"
print("joined", len(joined), "rows with", penstock.__version__, "from", penstock.__file__)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command away from this checkout and its settings; its output is the failure's text."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = f"{command[0]} {command[1]} … ended with {done.returncode}:\n{done.stdout}"
        pytest.fail(said, pytrace=False)
    return done.stdout


def pins(lock: str) -> list[str]:
    """The pinned requirements of a lock file, markers kept, hashes left out."""
    return re.findall(r"^([A-Za-z0-9._-]+==.*?) \\$", lock, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that holds the wheel and what the wheel asks for."""
    home = tmp_path_factory.mktemp("home")
    venv.create(home / "venv", with_pip=False, symlinks=True)
    interpreter = home / "venv" / "bin" / "python"
    constraints = home / "constraints.txt"
    constraints.write_text("\n".join(pins(LOCK.read_text())) + "\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", interpreter]
    run(*pip, "install", "--quiet", "--constraint", constraints, wheel, cwd=home)
    run(*pip, "check", cwd=home)
    return interpreter


def test_lock_pins_are_read() -> None:
    names = {pin.partition("==")[0] for pin in pins(LOCK.read_text())}
    assert {"numpy", "pyarrow", "numba", "typer", "rich", "hatchling", "pytest"} <= names


def test_lock_names_no_host() -> None:
    assert "://" not in LOCK.read_text()


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    info = f"penstock-{penstock.__version__}.dist-info"
    assert "penstock/py.typed" in names
    assert f"{info}/licenses/LICENSE" in names
    assert {name.split("/")[0] for name in names} == {"penstock", info}


@pytest.mark.timeout(600)
def test_wheel_without_extras_joins(python: Path, tmp_path: Path) -> None:
    spec = "import importlib.util as u; print(*[m for m in ('polars', 'psutil') if u.find_spec(m)])"
    assert run(python, "-c", spec, cwd=tmp_path).split() == []
    said = run(python, "-c", JOIN, cwd=tmp_path)
    assert said.startswith(f"joined 1007 rows with {penstock.__version__} from {python.parents[1]}")


@pytest.mark.timeout(600)
def test_wheel_without_extras_has_the_command(python: Path, tmp_path: Path) -> None:
    assert "Usage" in run(python.parent / "penstock", "--help", cwd=tmp_path)
