"""What a join costs: models of its reads and of its time, and where their numbers come from.

| module | what it has |
| --- | --- |
| `read_bound` | the fewest page reads that any schedule needs |
| `key_rates` | how often each key of each page is asked for |
| `steady_state`, `oldest_first`, `longest_wait` | a full window, read by age or by total wait |
| `held_keys`, `promoted_keys`, `paying_keys` | what a cache holds: fixed, CACHEJOIN's, ROOTJOIN's |
| `predictions` | the above for any join, as it was built |
| `unit_costs` | what a read and a row cost |
"""

from __future__ import annotations

from penstock.costs.key_rates import KeyProfile, KeyRates, KnownKeys, ZipfKeys
from penstock.costs.longest_wait import longest_wait
from penstock.costs.oldest_first import oldest_first
from penstock.costs.predictions import Prediction, Rates, predict
from penstock.costs.read_bound import (
    ReadBound,
    ReadBoundError,
    fluid_bound,
    hybridjoin_fluid,
    read_bound,
)
from penstock.costs.steady_state import SteadyState
from penstock.costs.unit_costs import CostError, ReadCurve, UnitCosts

__all__ = [
    "CostError",
    "KeyProfile",
    "KeyRates",
    "KnownKeys",
    "Prediction",
    "Rates",
    "ReadBound",
    "ReadBoundError",
    "ReadCurve",
    "SteadyState",
    "UnitCosts",
    "ZipfKeys",
    "fluid_bound",
    "hybridjoin_fluid",
    "longest_wait",
    "oldest_first",
    "predict",
    "read_bound",
]
