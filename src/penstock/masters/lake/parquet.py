"""Parquet files as a master: one file, or all that are in a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import pyarrow as pa
from pyarrow import fs

from penstock.errors import MasterError
from penstock.masters.addresses import scrubbed, without_secrets
from penstock.masters.lake.master import PAGE_BYTES, LakeMaster
from penstock.masters.lake.snapshots import LakeFile, Snapshot


def file_system_of(
    place: str, filesystem: fs.FileSystem | None = None
) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path there."""
    if filesystem is not None:
        return filesystem, place
    if "://" not in place:
        return fs.LocalFileSystem(), os.path.abspath(place)  # noqa: PTH100  (no link is followed)
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(place)
    except (OSError, ValueError, TypeError, pa.ArrowException) as error:
        # Not `from error`, here and below: what Arrow says has the whole URI.
        raise MasterError(
            f"no file system for {without_secrets(place)}: {scrubbed(error, place)}. Arrow knows "
            "file, s3, gs, abfs and hdfs; for any other, give filesystem=…."
        ) from None
    return found


class ParquetFolder:
    """The Parquet files of a folder and those below it, or one file.

    Files and folders whose names begin with `.` or `_` are not looked at. Folders named
    `column=value` give their files that column.
    """

    kind = "Parquet"
    changes = "generations of the files (their names, sizes and times)"
    int96_unit: str | None = None

    def __init__(self, place: str, filesystem: fs.FileSystem | None = None) -> None:
        self._uri = place
        self.system, self._path = file_system_of(place, filesystem)
        self.place = without_secrets(place)
        self.build_command = f"penstock master build {self.place}"

    def scrubbed(self, error: object) -> str:
        return scrubbed(error, self._uri).strip().rstrip(".")

    def snapshot(self, known: str | None = None) -> Snapshot | None:
        """The files that are there now; None if they are those of the version `known`."""
        try:
            listed = self._listed()
            version = _version(listed)
            if version == known:
                return None
            schema, constants = self._partitions(listed)
        except MasterError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise MasterError(
                f"cannot read {self.place}: {self.scrubbed(error)}. Correct the address, or write "
                "the table again."
            ) from None
        files = [
            LakeFile(i.path, i.size, i.mtime_ns or 0, c)
            for i, c in zip(listed, constants, strict=True)
        ]
        return Snapshot(version, schema, tuple(files))

    def _listed(self) -> list[fs.FileInfo]:
        found = self.system.get_file_info(self._path.rstrip("/") or "/")
        if found.type == fs.FileType.File:
            return [found]
        if found.type == fs.FileType.NotFound:
            raise MasterError(
                f"there is no file or folder {self.place}. Correct the address; the key is behind "
                "it, ?key=COLUMN."
            )
        listed = self.system.get_file_info(fs.FileSelector(found.path, recursive=True))
        below = len(found.path.rstrip("/")) + 1
        files = [
            info
            for info in sorted(listed, key=lambda i: i.path)
            if info.type == fs.FileType.File
            and not any(part[:1] in "._" for part in info.path[below:].split("/"))
        ]
        if not files:
            raise MasterError(
                f"the folder {self.place} has no Parquet files. Correct the address, or write the "
                "table first."
            )
        return files

    def _partitions(
        self, listed: Sequence[fs.FileInfo]
    ) -> tuple[pa.Schema, list[dict[str, pa.Scalar]]]:
        """The columns of the first file and those of the folders, and what each file has for
        these.
        """
        from pyarrow import dataset

        hive = dataset.HivePartitioning.discover(infer_dictionary=False)
        options = dataset.FileSystemFactoryOptions(
            partition_base_dir=self._path.rstrip("/"),
            partitioning=hive,
            exclude_invalid_files=False,
        )
        factory = dataset.FileSystemDatasetFactory(
            self.system,
            [info.path for info in listed],
            dataset.ParquetFileFormat(),
            options,
        )
        schema: pa.Schema = factory.inspect(fragments=1)
        fragments = factory.finish(schema).get_fragments()
        told = {f.path: dataset.get_partition_keys(f.partition_expression) for f in fragments}
        names = {name for keys in told.values() for name in keys}
        return schema, [
            {n: pa.scalar(told[info.path].get(n), schema.field(n).type) for n in names}
            for info in listed
        ]


def _version(listed: Sequence[fs.FileInfo]) -> str:
    told = hashlib.blake2b(digest_size=8)
    for info in listed:
        told.update(f"{info.path}\0{info.size}\0{info.mtime_ns}\n".encode())
    return told.hexdigest()


class ParquetMaster(LakeMaster):
    """Parquet files that are sorted by the key, read where they are.

    Row groups are pages, their statistics fences. Files are put in the order of their keys, which
    must not overlap: of two neighbours the last and the first key may be the same.

    Args:
        path: a file, a folder, or a URI of Arrow's file systems such as `s3://bucket/products/`.
        key: the key's column, or several.
        columns: those to have beside the key; all if not given.
        filesystem: an Arrow file system, if the path is none of a URI's.
        page_bytes: row groups smaller than this make up a page with their neighbours.

    >>> import tempfile, pyarrow.parquet as pq
    >>> folder = tempfile.TemporaryDirectory()
    >>> products = pa.table({"id": range(1000), "price": range(1000)})
    >>> pq.write_table(products, f"{folder.name}/products.parquet", row_group_size=100)
    >>> with ParquetMaster(folder.name, "id", page_bytes=1) as master:
    ...     print(master.num_pages, master.page_of(pa.array([5, 950])).tolist())
    10 [0, 9]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        key: str | Sequence[str],
        *,
        columns: Sequence[str] | None = None,
        filesystem: fs.FileSystem | None = None,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        self.path = os.fspath(path)
        self._options = key, columns, filesystem, page_bytes
        super().__init__(ParquetFolder(self.path, filesystem), key, columns, page_bytes)

    def __reduce__(self) -> tuple[object, ...]:
        if "://" not in self.path and self._options[2] is None:
            return _reopen, (os.path.abspath(self.path), *self._options)  # noqa: PTH100
        return _reopen, (self.path, *self._options)


def _reopen(
    path: str,
    key: str | Sequence[str],
    columns: Sequence[str] | None,
    filesystem: fs.FileSystem | None,
    page_bytes: int,
) -> ParquetMaster:
    return ParquetMaster(path, key, columns=columns, filesystem=filesystem, page_bytes=page_bytes)
