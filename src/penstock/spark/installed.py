"""Whether PySpark is there, and what to type when it is not."""

from __future__ import annotations

from importlib.util import find_spec

from penstock.errors import MissingPackageError


def require_pyspark() -> None:
    """Raise unless PySpark can be imported."""
    if find_spec("pyspark") is None:
        raise MissingPackageError(
            "this needs PySpark, which is not installed here. Type: pip install 'penstock[spark]'."
        )
