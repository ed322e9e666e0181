"""Penstock joins a fast stream with a table too big for memory, inside a fixed number of bytes."""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock import errors
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock import costs, joins, masters, spark
    from penstock.masters import Master, MemoryMaster, build_master, open_master
    from penstock.spark import enrich

__version__ = "0.1.0"

__all__ = [
    "Master",
    "MemoryMaster",
    "PenstockError",
    "build_master",
    "costs",
    "enrich",
    "errors",
    "joins",
    "masters",
    "open_master",
    "spark",
]

_HOMES = {
    "Master": "masters",
    "MemoryMaster": "masters",
    "build_master": "masters",
    "enrich": "spark",
    "open_master": "masters",
}
"""Where names live that are imported when they are first used: Arrow and Numba take a while."""

if not TYPE_CHECKING:  # or every name would pass for one of the package's

    def __getattr__(name: str) -> object:
        if name in ("costs", "joins", "masters", "spark"):
            return import_module(f"{__name__}.{name}")
        if name in _HOMES:
            found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
            globals()[name] = found
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
