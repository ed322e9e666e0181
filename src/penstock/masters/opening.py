"""`open_master`: from what a person writes to the master that it means."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.errors import MasterError
from penstock.masters.page_file import PageFileMaster
from penstock.masters.stored_page_file import StoredPageFileMaster

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_master(
    path: str | os.PathLike[str], **options: Any
) -> PageFileMaster | StoredPageFileMaster:
    """Open a page file by its path or URI.

    A path, or a `file://` URI, is read past the kernel's cache (`PageFileMaster` has the options);
    any other URI, such as `s3://bucket/products.arrow`, in ranges through Arrow's file systems
    (`StoredPageFileMaster`).
    """
    if not isinstance(path, str | os.PathLike):
        raise MasterError(
            f"a master is opened by the path of its page file, not by a {type(path).__name__}. For "
            "a table in memory use MemoryMaster(table, key=…); to make a file use build_master."
        )
    if isinstance(path, str) and _URI.match(path):
        if not path.lower().startswith("file://"):
            return StoredPageFileMaster(path, **options)
        path = unquote(urlsplit(path).path)
    return PageFileMaster(path, **options)
