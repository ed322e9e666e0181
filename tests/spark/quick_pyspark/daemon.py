"""Spark's own daemon of Python workers, which has imported what they need before it is asked for
one: a worker is a fork of it, and there is one for almost every test.

The sessions of processes that tests start have Spark's daemon, whose workers import for themselves.
"""

from __future__ import annotations

import runpy

# What a worker of Spark's imports, and then what is joined in it.
import pandas as pd  # noqa: F401
import pyspark.worker  # noqa: F401

import penstock.masters.databases.opening
import penstock.spark.at_once
import penstock.spark.building
import penstock.spark.waiting  # noqa: F401

if __name__ == "__main__":
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=False)
