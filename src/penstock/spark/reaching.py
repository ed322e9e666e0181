"""How a master reaches the executors: by an address that they open, or pickled."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import OptionError
from penstock.masters import Master, open_master
from penstock.masters.addresses import without_secrets
from penstock.masters.databases.address import TableAddress, is_database, refuse_odd_address
from penstock.masters.databases.table import Walk
from penstock.masters.lake.address import LakeAddress, lake_address
from penstock.masters.opening import shown_address

SPARK_FILES = "sparkfiles:"
"""Before the name of a file that was given to Spark with `addFile` or `addArtifact`."""


@dataclass(frozen=True)
class Address:
    """A master that whoever needs it opens by path or URI."""

    address: str

    def open(
        self,
        *,
        columns: Sequence[str] | None = None,
        staleness: float | None = None,
        walked: Walk | None = None,
    ) -> Master:
        """The master; a database is asked for these columns only, and for answers no older."""
        if is_database(self.address):
            return open_master(self.address, columns=columns, staleness=staleness, walked=walked)
        if self.address.startswith(SPARK_FILES):
            from pyspark import SparkFiles

            return open_master(SparkFiles.get(self.address.removeprefix(SPARK_FILES)))
        return open_master(self.address)

    @property
    def name(self) -> str:
        if is_database(self.address):
            return TableAddress.parse(self.address).name
        if self._lake is not None:
            return self._lake.name
        return Path(without_secrets(self.address.removeprefix(SPARK_FILES)).partition("?")[0]).stem

    @property
    def is_on_this_machine(self) -> bool:
        """Whether what the address means here can be looked at; elsewhere it may mean another."""
        if self.address.startswith(SPARK_FILES):
            return False
        if self._lake is not None and self._lake.is_local:
            return Path(self._lake.place).exists()
        return "://" in self.address or Path(self.address).exists()

    @property
    def _lake(self) -> LakeAddress | None:
        return None if self.address.startswith(SPARK_FILES) else lake_address(self.address)

    def __str__(self) -> str:
        is_sent = self.address.startswith(SPARK_FILES)
        return without_secrets(self.address) if is_sent else shown_address(self.address)

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"


@dataclass(frozen=True)
class Carried:
    """A master that was opened by the caller and goes along with each task, pickled."""

    pickled: bytes
    described: str
    name: str
    is_on_this_machine: bool = True

    def open(
        self,
        *,
        columns: Sequence[str] | None = None,
        staleness: float | None = None,
        walked: Walk | None = None,
    ) -> Master:
        """The master as it was opened; what else is asked for was its owner's choice."""
        master: Master = pickle.loads(self.pickled)
        return master

    def __str__(self) -> str:
        return self.described


Reference = Address | Carried


def reference(master: Any) -> Reference:
    """What a person gives as `master=`, in a form that every process can open."""
    if isinstance(master, str | os.PathLike):
        text = os.fspath(master)
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            raise OptionError("master= is no path; give a path, a URI or a master.")
        refuse_odd_address(text)
        if is_database(text):
            _ = TableAddress.parse(text).name  # says here what is wrong with it
        lake = None if text.startswith(SPARK_FILES) else lake_address(text)
        if lake is not None:
            lake.require_key()
            return Address(lake.absolute().text)
        if text.startswith(SPARK_FILES) or "://" in text:
            return Address(text)
        path = Path(text).expanduser()
        return Address(str(path.absolute() if path.exists() else path))
    if not isinstance(master, Master):
        raise OptionError(
            f"master is a path, a URI or an open master, not a {type(master).__name__}. Build a "
            "master with penstock.build_master(table, path, key=…) and give its path."
        )
    try:
        pickled = pickle.dumps(master)
    except Exception as error:
        raise OptionError(
            f"{master!r} cannot be sent to executors ({error}). Give its path or URI instead, or "
            "write __reduce__ so that it is opened again where it is needed."
        ) from error
    named = Path(str(getattr(master, "path", type(master).__name__))).stem
    return Carried(pickled, repr(master), named)
