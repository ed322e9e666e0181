"""Python imports this first of all, where its folder is on the path: in the daemons that Spark
forks its workers from. So each worker, and there is one for almost every test, has its imports.

Sessions of processes that tests start are without it: there, workers import for themselves.
"""

from __future__ import annotations

import sys

if "pyspark.daemon" in sys.orig_argv:
    import pandas as pd  # noqa: F401
    import pyspark.worker  # noqa: F401

    import penstock.masters.databases.opening
    import penstock.spark.at_once
    import penstock.spark.building
    import penstock.spark.waiting  # noqa: F401
