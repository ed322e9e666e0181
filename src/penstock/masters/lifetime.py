"""A master from its opening to its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from penstock.errors import StateError

if TYPE_CHECKING:
    from typing_extensions import Self


class Closeable(ABC):
    """A master that is shown by its place, used in a `with`, and of no use once it is closed."""

    place: str
    """Where it is, without what is secret."""
    _closed = False
    num_rows: int
    num_pages: int

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.place!r}, rows={self.num_rows}, pages={self.num_pages})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; every later call but this one raises StateError."""

    def _require_open(self) -> None:
        if self._closed:
            raise StateError(f"{self.place} is closed; open the master again.")
