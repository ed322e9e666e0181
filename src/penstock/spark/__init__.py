"""Penstock on Spark. Importing this imports no PySpark; the names are loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.spark.enrich import enrich

if TYPE_CHECKING:
    from penstock.spark.metering import EnrichMetrics, MetricsListener, metrics
    from penstock.spark.session import local_session

__all__ = ["EnrichMetrics", "MetricsListener", "enrich", "local_session", "metrics"]

_HOMES = {
    "EnrichMetrics": "metering",
    "MetricsListener": "metering",
    "local_session": "session",
    "metrics": "metering",
}

if not TYPE_CHECKING:  # or every name would pass for one of the package's

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from penstock.spark.installed import require_pyspark

        require_pyspark()
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
