"""Penstock on Spark. Importing this imports no PySpark; the names are loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.spark.enrich import enrich

if TYPE_CHECKING:
    from penstock.spark.building import build_master
    from penstock.spark.draining import stop_when_drained
    from penstock.spark.explaining import explain
    from penstock.spark.metering import EnrichMetrics, MetricsListener, metrics
    from penstock.spark.session import local_session
    from penstock.spark.source import register

__all__ = [
    "EnrichMetrics",
    "MetricsListener",
    "build_master",
    "enrich",
    "explain",
    "local_session",
    "metrics",
    "register",
    "stop_when_drained",
]

_HOMES = {
    "EnrichMetrics": "metering",
    "MetricsListener": "metering",
    "build_master": "building",
    "explain": "explaining",
    "local_session": "session",
    "metrics": "metering",
    "register": "source",
    "stop_when_drained": "draining",
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
