"""Masters that are tables of a database: pages are key ranges, and single keys can be looked up."""

from __future__ import annotations

from penstock.masters.databases.master import DatabaseMaster

__all__ = ["DatabaseMaster"]
