"""What a version of a lake's table is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyarrow import fs


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

    @property
    def identity(self) -> tuple[str, int, int | None]:
        """What tells it from another file, or from what was there before."""
        return self.path, self.size, self.stamp


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
