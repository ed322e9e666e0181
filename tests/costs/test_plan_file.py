"""Plan files: what was written is what is read, and nothing else is taken for a plan."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.costs.plan_file import read_plan, write_plan
from penstock.costs.unit_costs import CostError
from penstock.errors import OptionError, PenstockError
from penstock.joins.cachejoin import CacheJoin
from penstock.joins.hybridjoin_l import HybridJoinL
from penstock.joins.meshjoin import MeshJoin
from penstock.joins.names import NAMES, named
from penstock.joins.plan import JoinPlan
from penstock.joins.rootjoin import RootJoin

PLANS: dict[str, JoinPlan] = {
    "rootjoin": RootJoin(budget="40MB", read_bytes=66_846, pack=True),
    "cachejoin": CacheJoin(budget=3_000_000, cache_share=0.3, max_wait="30s"),
    "hybridjoin-l": HybridJoinL(budget="8MB", position=0.5, seed=11),
    "meshjoin": MeshJoin(budget="8MB", disk_buffer=65_536),
}


@pytest.mark.parametrize("name", PLANS)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", name, PLANS[name])
    assert read_plan(tmp_path / "plan.json") == PLANS[name]
    assert read_plan(str(tmp_path / "plan.json")) == PLANS[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_join_as_it_is_by_default(name: str, tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", name, named(name, budget="9MB"))
    assert read_plan(tmp_path / "plan.json") == named(name, budget="9MB")


def test_a_time_to_wait_is_written_in_seconds(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", "rootjoin", RootJoin(max_wait=timedelta(minutes=1.5)))
    assert read_plan(tmp_path / "plan.json") == RootJoin(max_wait=90.0)


def test_what_a_person_reads(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", "cachejoin", PLANS["cachejoin"], why="it is the fastest")
    known = json.loads((tmp_path / "plan.json").read_text())
    assert (known["format"], known["version"]) == ("penstock-plan", 1)
    assert known["join"] == "cachejoin"
    assert known["options"] == {"budget": 3_000_000, "cache_share": 0.3, "max_wait": "30s"}
    assert known["why"] == "it is the fastest"
    assert (tmp_path / "plan.json").read_text().endswith("}\n")


GOOD: dict[str, Any] = {
    "format": "penstock-plan",
    "version": 1,
    "join": "rootjoin",
    "options": {"budget": "1MB"},
}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"format": "other"}, "is no plan: its format is not 'penstock-plan'"),
    ({"version": 2}, "has version 2 of plans, and this Penstock reads version 1"),
    ({"version": None}, "version None"),
    ({"options": None}, "has no options"),
    ({"options": []}, "has no options"),
    ({"join": "rotjoin"}, "no join is named 'rotjoin'.*Did you mean 'rootjoin'"),
    ({"join": None}, "no join is named"),
    ({"options": {"colour": "red"}}, "rootjoin takes other options.*colour"),
    ({"options": {"position": 0.5}}, "rootjoin takes other options.*position"),
    ({"options": {"budget": "much"}}, "'much' is not a size"),
    ({"options": {"budget": "1MB", "read_bytes": "wide"}}, "'wide' is not a size"),
    ({"join": "cachejoin", "options": {"cache_share": 7}}, "cache_share=7"),
    ({"join": "cachejoin", "options": {"cache_share": "half"}}, "cache"),
]


@pytest.mark.parametrize(("change", "says"), BAD, ids=[str(b[0]) for b in BAD])
def test_what_is_no_plan(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(GOOD))
    assert read_plan(path) == RootJoin(budget="1MB")
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(OptionError, match=says):
        read_plan(path)


@pytest.mark.parametrize("text", [b"", b"budget: 50MB", b"\xff\xfe\x00{", b'{"format": '])
def test_what_is_no_json(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(text)
    with pytest.raises(OptionError, match=f"{re.escape(str(path))} is no plan: it is not JSON"):
        read_plan(path)


@pytest.mark.parametrize("text", ["[]", "7", '"rootjoin"', "null"])
def test_json_that_is_something_else(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(OptionError, match=r"penstock tune MASTER --to .*plan\.json` writes one"):
        read_plan(tmp_path / "plan.json")


def test_what_is_no_path() -> None:
    for wrong in (7, None, RootJoin()):
        with pytest.raises(OptionError, match="by its path, not by"):
            read_plan(wrong)  # type: ignore[arg-type]


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"none\.json cannot be read: No such file"):
        read_plan(tmp_path / "none.json")
    with pytest.raises(OptionError, match="cannot be read: Is a directory"):
        read_plan(tmp_path)
    with pytest.raises(OptionError, match=r"cannot be written to .*: there is no such folder"):
        write_plan(tmp_path / "no" / "plan.json", "rootjoin", RootJoin())


def test_nothing_else_is_written_over(tmp_path: Path) -> None:
    precious = tmp_path / "products.arrow"
    precious.write_bytes(b"ARROW1")
    with pytest.raises(OptionError, match="is there and is no plan; it would be lost"):
        write_plan(precious, "rootjoin", RootJoin())
    assert precious.read_bytes() == b"ARROW1"
    with pytest.raises(OptionError, match="no such folder"):
        write_plan(tmp_path / "nowhere" / "plan.json", "rootjoin", RootJoin())
    with pytest.raises(OptionError, match="it is a folder"):
        write_plan(tmp_path, "rootjoin", RootJoin())


def test_a_plan_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, "rootjoin", RootJoin(budget="7MB"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("penstock.costs.whole_files.Path.replace", full)
    with pytest.raises(CostError, match="No space left on device"):
        write_plan(path, "rootjoin", RootJoin(budget="9MB"))
    assert read_plan(path) == RootJoin(budget="7MB")
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "x"}, "a plan has no option 'name'"),
        ({"seed": "x"}, "seed"),
        ({"colour": 1}, "takes other options"),
        ({"budget": "much"}, "much"),
    ],
)
def test_errors_name_the_file(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**GOOD, "options": options}))
    with pytest.raises(PenstockError, match=says) as caught:
        read_plan(path)
    assert str(path) in str(caught.value)


def test_json_that_goes_too_deep(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("[" * 200_000)
    with pytest.raises(OptionError, match="is no plan"):
        read_plan(tmp_path / "plan.json")
