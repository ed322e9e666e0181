"""Where a query stands, from its checkpoint: for versions of Spark that do not tell a source.

A checkpoint has a folder `offsets` with one file per micro-batch, named by its number: a line with
the version, a line about the batch, and a line for each source with the offset at which it ends.
The folder `commits` has a file for each that was finished.
"""

from __future__ import annotations

import json
from typing import Any

from pyarrow import fs


def latest_offset(checkpoint: str, field: str, *, finished: bool = False) -> dict[str, Any] | None:
    """Where the newest micro-batch ends, or the newest finished one; None when there is none.

    Of several sources, the first whose offset has this field.
    """
    files, folder = _located(checkpoint)
    where = f"{folder}/{'commits' if finished else 'offsets'}"
    listed = files.get_file_info(fs.FileSelector(where, allow_not_found=True))
    numbers = [int(info.base_name) for info in listed if info.base_name.isdecimal()]
    if not numbers:
        return None
    with files.open_input_stream(f"{folder}/offsets/{max(numbers)}") as file:
        lines = file.read().decode().splitlines()
    for line in lines[2:]:
        if not line.startswith("{"):
            continue
        offset = json.loads(line)
        if field in offset:
            return dict(offset)
    return None


def _located(checkpoint: str) -> tuple[fs.FileSystem, str]:
    """The file system, and the folder in it; Spark also writes `file:/path`."""
    if checkpoint.startswith("file:"):
        checkpoint = "/" + checkpoint.removeprefix("file:").lstrip("/")
    if "://" in checkpoint:
        found, folder = fs.FileSystem.from_uri(checkpoint)
    else:
        found, folder = fs.LocalFileSystem(), checkpoint
    return found, folder.rstrip("/")
