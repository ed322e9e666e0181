"""The tutorial, followed by the letter in a new process and an empty folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
_MARK = "-- next block --"


@pytest.mark.timeout(600)
@pytest.mark.one_spark
def test_every_block_prints_what_the_tutorial_says(tmp_path: Path) -> None:
    blocks = re.findall(
        r"```python\n(.*?)```\n(?:\n```\n(.*?)```)?", TUTORIAL.read_text(), re.DOTALL
    )
    assert len(blocks) >= 10
    program = tmp_path / "tutorial.py"
    program.write_text("".join(f"{code}\nprint({_MARK!r})\n" for code, _ in blocks))
    folder = tmp_path / "empty"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    printed = [part.strip() for part in done.stdout.split(_MARK)]
    assert printed == [*(expected.strip() for _, expected in blocks), ""]
