"""Small files that are there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_MODE = 0o644


def write_whole(path: Path, text: str) -> None:
    """Put the text where the path is, in one step; what was there stays if that fails."""
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        unfinished.chmod(_MODE)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
