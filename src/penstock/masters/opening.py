"""`open_master`: from what a person writes to the master that it means."""

from __future__ import annotations

import os
import re
from typing import Any

from penstock.errors import MasterError
from penstock.masters.page_file import PageFileMaster

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_master(path: str | os.PathLike[str], **options: Any) -> PageFileMaster:
    """Open a page file; `options` are those of `PageFileMaster`."""
    if not isinstance(path, str | os.PathLike):
        raise MasterError(
            f"a master is opened by the path of its page file, not by a {type(path).__name__}. For "
            "a table in memory use MemoryMaster(table, key=…); to make a file use build_master."
        )
    if isinstance(path, str) and _URL.match(path):
        raise MasterError(
            f"{path!r} is an address; open_master opens page files. Copy the data into one with "
            "build_master, which takes Arrow record batches from anywhere."
        )
    return PageFileMaster(path, **options)
