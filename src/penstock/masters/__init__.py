"""Master data R: what a join reads its pages from."""

from __future__ import annotations

from penstock.masters.base import Changes, Master, ReadCount
from penstock.masters.info import MasterInfo, TableInfo
from penstock.masters.lake import DeltaMaster, ParquetMaster
from penstock.masters.memory import MemoryMaster
from penstock.masters.opening import open_master
from penstock.masters.page_file import PageFileMaster
from penstock.masters.page_file_build import build_master
from penstock.masters.page_file_verify import verify_master
from penstock.masters.stored_page_file import StoredPageFileMaster

__all__ = [
    "Changes",
    "DeltaMaster",
    "Master",
    "MasterInfo",
    "MemoryMaster",
    "PageFileMaster",
    "ParquetMaster",
    "ReadCount",
    "StoredPageFileMaster",
    "TableInfo",
    "build_master",
    "open_master",
    "verify_master",
]
