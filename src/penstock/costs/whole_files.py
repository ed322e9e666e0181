"""Small files that people ask for: whole or not at all, and never over something else."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from penstock.costs.unit_costs import CostError
from penstock.errors import OptionError

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


def write_asked(path: Path, text: str, what: str) -> None:
    """The same for what somebody asked for; raises CostError."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise CostError(f"the {what} cannot be written to {path}: {error.strerror}.") from error


def require_target(path: Path, what: str, kind: str, is_one: Callable[[Path], bool]) -> None:
    """Raise where this cannot be written, or where a file of another kind would be lost."""
    if not path.parent.is_dir():
        raise OptionError(f"the {what} cannot be written to {path}: there is no such folder.")
    if path.is_dir():
        raise OptionError(f"the {what} cannot be written to {path}: it is a folder.")
    if path.exists() and not (path.is_file() and (not path.stat().st_size or is_one(path))):
        raise OptionError(
            f"{path} is there and is no {kind}; it would be lost. Give another name, or remove it."
        )
