"""Code in README and in the Python guide runs and prints what they say."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import fields
from pathlib import Path

import pytest

from penstock import joins
from penstock.joins import JoinPlan

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "python.md"
PAGES = (ROOT / "README.md", GUIDE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```\n+```\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, printed in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(page), "exec"), names)
        assert out.getvalue().strip() == printed.strip()


def test_the_guide_has_every_option_of_every_plan() -> None:
    told: dict[str, set[str]] = {}
    plans: list[str] = []
    for line in GUIDE.read_text().partition("## The plans")[2].partition("## ")[0].splitlines():
        cells = [re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:3]]
        if len(cells) == 2:
            plans = cells[0] or plans
            for plan in plans:
                told.setdefault(plan, set()).update(cells[1])
    common = {f.name for f in fields(JoinPlan)}
    named = (getattr(joins, name) for name in joins.__all__)
    plans_in_code = [p for p in named if isinstance(p, type) and issubclass(p, JoinPlan)]
    plans_in_code.remove(JoinPlan)
    options = {p.__name__: {f.name for f in fields(p)} - common for p in plans_in_code}
    assert told == options


@pytest.mark.parametrize("page", [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")], ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    found = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in found if not (page.parent / link).exists()] == []
