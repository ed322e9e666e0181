"""Measuring joins: one case, every join in a process of its own, beside joins in memory.

| module | what it does |
| --- | --- |
| `case` | what is measured: R, stream, budget |
| `suite` | builds R, runs joins and baselines side by side, puts the results together |
| `process`, `worker`, `feed` | a process per measurement; stream rows are made outside of it |
| `join` | one join, timed, with everything that its counters say |
| `waiting` | rows that wait when a page is read, for the read bound |
| `baselines` | the same rows joined with all of R in memory |
| `stopwatch`, `resident` | seconds and resident bytes |
| `machine` | where the numbers come from |
"""

from penstock.bench.case import BenchError, JoinCase
from penstock.bench.suite import Suite

__all__ = ["BenchError", "JoinCase", "Suite"]
