"""Errors: one base class, and each error is also the builtin that a caller would expect.

Every message says what happened, the numbers, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, available: Iterable[str]) -> str:
    """A question that names what is like `name`, to be put behind a sentence; empty if none is.

    >>> did_you_mean("SKUU", ["sku", "price"])
    " Did you mean 'sku'?"
    """
    folded = {known.casefold(): known for known in available}
    close = get_close_matches(name.casefold(), folded, n=3)
    return f" Did you mean {' or '.join(repr(folded[c]) for c in close)}?" if close else ""


def counted(number: int, noun: str) -> str:
    """So many of something, which has an s at its end when there are several.

    >>> counted(1, "row"), counted(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class PenstockError(Exception):
    """Base of every error that Penstock raises on purpose."""


class BudgetError(PenstockError, ValueError):
    """The budget cannot hold what was asked for."""


class OptionError(PenstockError, ValueError):
    """An option of a plan that cannot be, or a name that no join has."""

    @classmethod
    def out_of_range(cls, name: str, value: object, wanted: str) -> OptionError:
        return cls(f"{name}={value!r} cannot be; give {wanted}.")


class SizeError(BudgetError, OptionError):
    """A size that is none, or is out of its option's range."""


class KeyTypeError(PenstockError, TypeError):
    """A key type that cannot be a key, or two key types that cannot meet."""


class SchemaError(PenstockError, ValueError):
    """Columns that are missing, clash, or are not what was promised."""

    @classmethod
    def missing_column(cls, name: str, available: Iterable[str], where: str) -> SchemaError:
        names = list(available)
        listed, hint = ", ".join(names) or "none", did_you_mean(name, names)
        return cls(f"{where} has no column {name!r}; its columns are: {listed}.{hint}")


class StateError(PenstockError, RuntimeError):
    """A call that the operator's present state does not allow."""


class MasterError(PenstockError, OSError):
    """Master data that cannot be read."""


class ServerAwayError(MasterError):
    """A server that does not answer now, and may later: the same call can be made again."""


class PagesMovedError(MasterError):
    """Pages that are no longer what was promised: refresh, and make the same call again."""


class CorruptMasterError(MasterError):
    """A master file that is not what its metadata says."""


class MissingPackageError(PenstockError, ImportError):
    """Something that must be installed first."""
