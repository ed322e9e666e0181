"""Delta tables as masters: the log says which Parquet files a version has."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyarrow import fs

from penstock.errors import MasterError, MissingPackageError
from penstock.keys import Int64s
from penstock.masters.addresses import scrubbed, without_secrets
from penstock.masters.lake.master import PAGE_BYTES, LakeMaster
from penstock.masters.lake.parquet import file_system_of
from penstock.masters.lake.snapshots import LakeFile, Snapshot

_UNDERSTOOD = {
    "deletionVectors",
    "domainMetadata",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
"""What a table may ask of its readers."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_process: list[int] = []
"""The process in which the package was used first: what it has running does not survive a fork."""


class DeltaLog:
    """A Delta table by its log; the files themselves are read by Arrow."""

    kind = "Delta"
    changes = "versions of the table"
    int96_unit: str | None = "us"

    def __init__(
        self,
        place: str,
        storage_options: Mapping[str, str] | None = None,
        filesystem: fs.FileSystem | None = None,
    ) -> None:
        self._uri, self._options = place, dict(storage_options or {})
        root = place if filesystem is None else place.rpartition("://")[2]
        self.system, self._root = file_system_of(root, filesystem)
        self.place = without_secrets(place)
        prefix = "delta+" if "://" in place else ""
        self.build_command = f"penstock master build {prefix}{self.place}"
        self._table: Any = None

    def scrubbed(self, error: object) -> str:
        said = scrubbed(error, self._uri)
        for secret in filter(None, self._options.values()):
            said = said.replace(secret, "***")
        return " ".join(_COLOURS.sub("", said).split()).rstrip(".")

    def snapshot(self, known: str | None = None) -> Snapshot | None:
        """The newest version; None if that is the version `known`."""
        deltalake = _package()
        try:
            if self._table is None:
                opened = deltalake.DeltaTable(
                    self._uri.partition("?")[0], storage_options=self._options or None
                )
            else:
                opened = self._table
                opened.update_incremental()
            version = str(opened.version())
            self._table = opened
            if version == known:
                return None
            self._require_readable(opened)
            schema = pa.schema(opened.schema().to_arrow())
            deleted = _deleted(opened)
            files = self._files(pa.table(opened.get_add_actions(flatten=True)), schema, deleted)
        except MasterError:
            raise
        except (deltalake.exceptions.DeltaError, OSError) as error:
            # Not `from error`: it may say the options, which can be secret.
            raise MasterError(
                f"cannot read the Delta table {self.place}: {self.scrubbed(error)}."
            ) from None
        return Snapshot(version, schema, files)

    def _files(
        self, added: pa.Table, schema: pa.Schema, deleted: dict[str, Int64s]
    ) -> tuple[LakeFile, ...]:
        prefix = "partition."
        names = [n for n in added.column_names if n.startswith(prefix)]
        values = {n.removeprefix(prefix): added.column(n) for n in names}
        constants = {n: c.cast(schema.field(n).type) for n, c in values.items()}
        found = []
        for row, path in enumerate(added.column("path").to_pylist()):
            if "://" in path:
                raise MasterError(
                    f"{self.place} is a clone, and has its files elsewhere ({path}). Open the "
                    "table that it was cloned from, or make a deep clone."
                )
            size = added.column("size_bytes")[row].as_py()
            here = {name: column[row] for name, column in constants.items()}
            gone = deleted.pop(unquote(path), None)
            whole = f"{self._root.rstrip('/')}/{unquote(path)}"
            found.append(LakeFile(whole, size, None, here, gone))
        if deleted:
            raise self._cannot("it has deletion vectors of files that it does not have", "mend it")
        return tuple(sorted(found, key=lambda file: file.path))

    def _require_readable(self, table: Any) -> None:
        """Raise MasterError for what a version asks of its readers and is not understood here."""
        protocol, settings = table.protocol(), table.metadata().configuration
        features = set(protocol.reader_features or ())
        if settings.get("delta.columnMapping.mode", "none") != "none":
            raise self._cannot(
                "its columns have other names in the files (column mapping)",
                "write it to a new table",
            )
        unknown = sorted(features - _UNDERSTOOD - {"columnMapping"})
        if unknown:
            raise self._cannot(f"its version needs {', '.join(unknown)}", "write it to a new table")

    def _cannot(self, why: str, what_to_do: str) -> MasterError:
        return MasterError(
            f"the Delta table {self.place} cannot be a master: {why}. To make it one, {what_to_do}."
        )


def _deleted(table: Any) -> dict[str, Int64s]:
    """By the path of each file below the table, the rows that its deletion vector takes out."""
    if "deletionVectors" not in set(table.protocol().reader_features or ()):
        return {}
    root, found = table.table_uri.rstrip("/") + "/", {}
    for batch in pa.table(table.deletion_vectors()).to_batches():
        kept = batch.column("selection_vector")
        for row, uri in enumerate(batch.column("filepath").to_pylist()):
            gone = np.flatnonzero(~kept[row].values.to_numpy(zero_copy_only=False))
            found[unquote(uri.removeprefix(root))] = gone.astype(np.int64)
    return found


def _package() -> Any:
    """The package that reads logs, in a process where it can."""
    try:
        import deltalake
    except ImportError as error:
        raise MissingPackageError(
            "a Delta table as a master needs a package that reads its log: "
            "pip install 'penstock[delta]'."
        ) from error
    if not _process:
        _process.append(os.getpid())
    if _process[0] != os.getpid():
        raise MasterError(
            "the log of a Delta table cannot be read in a process that was forked from one that "
            "read it (the package deltalake does not allow it). What is open can be read on; to "
            "open or to refresh, start processes with multiprocessing's spawn or forkserver."
        )
    return deltalake


class DeltaMaster(LakeMaster):
    """A Delta table that is sorted by the key, read where it is.

    One version is seen until `refresh` goes over to the newest. Files that are in both versions
    are not looked at again, and only keys of the others are said to have changed. Files of a
    version that is in use must not be vacuumed: reading one then says so.

    Args:
        path: the table's folder, or its URI such as `s3://bucket/products`.
        key: the key's column, or several.
        columns: those to have beside the key; all if not given.
        storage_options: for the package that reads the log, if the environment does not have them.
        filesystem: an Arrow file system for the files, in which they have the path of the URI.
        page_bytes: row groups smaller than this make up a page with their neighbours.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        key: str | Sequence[str],
        *,
        columns: Sequence[str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        filesystem: fs.FileSystem | None = None,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        place = os.fspath(path)
        self.path = place if "://" in place else os.path.abspath(place)  # noqa: PTH100
        self._options = key, columns, storage_options, filesystem, page_bytes
        log = DeltaLog(self.path, storage_options, filesystem)
        super().__init__(log, key, columns, page_bytes)

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.path, *self._options)


def _reopen(
    path: str,
    key: str | Sequence[str],
    columns: Sequence[str] | None,
    storage_options: Mapping[str, str] | None,
    filesystem: fs.FileSystem | None,
    page_bytes: int,
) -> DeltaMaster:
    return DeltaMaster(
        path,
        key,
        columns=columns,
        storage_options=storage_options,
        filesystem=filesystem,
        page_bytes=page_bytes,
    )
