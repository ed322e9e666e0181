"""What a version of a lake's table is made of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyarrow import fs

from penstock.keys import Int64s

FileIdentity = tuple[str, int, int | None, str]


@dataclass(frozen=True)
class LakeFile:
    """A Parquet file of the table."""

    path: str
    """In the table's file system."""
    size: int
    stamp: int | None = None
    """When it was written; None of a file that is never written again under its name."""
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict, compare=False)
    """Columns that are not in the file, since all its rows have one value."""
    deleted: Int64s | None = field(default=None, compare=False)
    """Numbers of rows of the file that no longer count, ascending."""

    @cached_property
    def identity(self) -> FileIdentity:
        """What tells it from another file, or from what was there before."""
        gone = b"" if self.deleted is None else self.deleted.tobytes()
        return self.path, self.size, self.stamp, hashlib.blake2b(gone, digest_size=8).hexdigest()

    def deleted_between(self, starts: Int64s) -> Int64s:
        """How many rows no longer count of those from each start to the next."""
        if self.deleted is None:
            return np.zeros(len(starts) - 1, dtype=np.int64)
        return np.diff(np.searchsorted(self.deleted, starts))


@dataclass(frozen=True)
class Snapshot:
    """The files of one version, and the columns of the table."""

    version: str
    schema: pa.Schema
    files: tuple[LakeFile, ...]


class LakeTable(Protocol):
    """A table as it is found: a folder of files, or a log that names them."""

    place: str
    """Where it is, for messages; without secrets."""
    build_command: str
    """The command that copies the table into a page file, but for its key."""
    kind: str
    """What to call it: Parquet or Delta."""
    changes: str
    """How it is noticed that the table has changed."""
    int96_unit: str | None
    """In which unit old timestamps of 96 bits are read; Arrow's own if None."""
    system: fs.FileSystem

    def snapshot(self, known: str | None = None) -> Snapshot | None:
        """What the table is now; None if that is still the version `known`."""

    def scrubbed(self, error: object) -> str:
        """What somebody else said of the table, without what is secret in its address."""
