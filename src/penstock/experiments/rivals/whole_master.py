"""All of R in memory: how it gets there, and what that holds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.bench.resident import ResidentGrowth
from penstock.errors import MissingPackageError
from penstock.experiments.rivals.base import Rival, RivalSetting
from penstock.masters import PageFileMaster
from penstock.memory import give_back_freed, in_one_piece

_RUN_BYTES = 8_000_000


def runs_of(master: PageFileMaster, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """These columns of all rows, in key order: many pages in one batch, one batch at a time."""
    at_once = max(_RUN_BYTES // master.index.largest_page_nbytes, 1)
    for first in range(0, master.num_pages, at_once):
        pages = np.arange(first, min(first + at_once, master.num_pages))
        yield in_one_piece(master.read(pages, columns))


class WholeMaster(Rival):
    """Holds all of R, whatever the budget.

    `held_bytes` is what resident memory has grown by when R was there, or what the engine says
    that R takes, if that is more or the system does not tell. What the engine needs to join a
    batch, a hash table of the batch or of R, comes on top.
    """

    def __init__(self, setting: RivalSetting) -> None:
        with setting.open_master() as master:
            super().__init__(setting, master.schema)
            grown = ResidentGrowth()
            columns = [setting.key, *setting.added_columns(master.schema)]
            said = self._hold(master, columns)
        give_back_freed()
        grown.sample()
        self._held = max(said, grown.most or 0)

    @abstractmethod
    def _hold(self, master: PageFileMaster, columns: list[str]) -> int:
        """Take all rows of R in; the bytes that the engine says they take."""

    def _counted(self) -> dict[str, int]:
        return {"held_bytes": self._held}


def missing_package(package: str) -> MissingPackageError:
    return MissingPackageError(
        f"this rival needs the package {package}: pip install 'penstock[experiments]'."
    )
