"""Masters that are tables of a lake: row groups of Parquet files are pages, found by statistics."""

from __future__ import annotations

from penstock.masters.lake.delta import DeltaMaster
from penstock.masters.lake.parquet import ParquetMaster

__all__ = ["DeltaMaster", "ParquetMaster"]
