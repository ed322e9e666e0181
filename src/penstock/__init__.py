"""Penstock joins a fast stream with a table too big for memory, inside a fixed number of bytes."""

from penstock import errors, joins
from penstock.errors import PenstockError
from penstock.masters import Master, MemoryMaster, build_master, open_master

__version__ = "0.1.0"

__all__ = [
    "Master",
    "MemoryMaster",
    "PenstockError",
    "build_master",
    "errors",
    "joins",
    "open_master",
]
