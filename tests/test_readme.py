"""README's code runs and prints what README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```\n+```\n(.*?)```", README.read_text(), re.DOTALL)


def test_readme_has_code_with_its_output() -> None:
    assert BLOCKS


def test_readme_code_prints_what_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, printed in BLOCKS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(README), "exec"), names)
        assert out.getvalue().strip() == printed.strip()
