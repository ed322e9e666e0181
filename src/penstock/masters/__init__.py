"""Master data R: what a join reads its pages from."""

from __future__ import annotations

from penstock.masters.base import Changes, Master, ReadCount
from penstock.masters.info import MasterInfo
from penstock.masters.memory import MemoryMaster
from penstock.masters.opening import open_master
from penstock.masters.page_file import PageFileMaster
from penstock.masters.page_file_build import build_master
from penstock.masters.page_file_verify import verify_master
from penstock.masters.stored_page_file import StoredPageFileMaster

__all__ = [
    "Changes",
    "Master",
    "MasterInfo",
    "MemoryMaster",
    "PageFileMaster",
    "ReadCount",
    "StoredPageFileMaster",
    "build_master",
    "open_master",
    "verify_master",
]
