"""Settings for Python workers that are up sooner."""

from __future__ import annotations

# The name ends as that of Spark's own, by which Penstock knows whose children the workers are.
QUICK_WORKERS = {"spark.python.daemon.module": f"{__name__}.daemon"}
