"""What a join costs: models of its reads and of its time, and where their numbers come from.

| module | what it has |
| --- | --- |
| `read_bound` | the fewest page reads that any schedule needs |
| `key_rates`, `key_sample`, `key_sketch` | how often each key is asked for, known or sampled |
| `steady_state`, `oldest_first`, `longest_wait` | a full window, read by age or by total wait |
| `held_keys`, `promoted_keys`, `paying_keys` | what a cache holds: fixed, CACHEJOIN's, ROOTJOIN's |
| `predictions`, `service_rate` | the above for any join, as it was built: its reads and its rate |
| `unit_costs`, `calibration`, `read_timing`, `row_timing` | what a read and a row cost, measured |
| `choosing`, `tuning`, `plan_file` | the best join, the best split, and a file that has it |
| `published` | the papers' own models |
"""

from __future__ import annotations

from penstock.costs.calibration import NOMINAL, calibrate, keep_calibration, kept_calibration
from penstock.costs.choosing import Candidate, Choice, Question, auto_plan, compare, pick
from penstock.costs.key_rates import KeyProfile, KeyRates, KnownKeys, ZipfKeys
from penstock.costs.key_sample import SampledKeys, SampleError
from penstock.costs.longest_wait import longest_wait
from penstock.costs.oldest_first import oldest_first
from penstock.costs.plan_file import read_plan, write_plan
from penstock.costs.predictions import Prediction, Rates, predict
from penstock.costs.read_bound import (
    ReadBound,
    ReadBoundError,
    fluid_bound,
    hybridjoin_fluid,
    read_bound,
)
from penstock.costs.service_rate import ServiceRate, service_rate
from penstock.costs.steady_state import SteadyState
from penstock.costs.tuning import Tuned, tune
from penstock.costs.unit_costs import CostError, ReadCurve, UnitCosts

__all__ = [
    "NOMINAL",
    "Candidate",
    "Choice",
    "CostError",
    "KeyProfile",
    "KeyRates",
    "KnownKeys",
    "Prediction",
    "Question",
    "Rates",
    "ReadBound",
    "ReadBoundError",
    "ReadCurve",
    "SampleError",
    "SampledKeys",
    "ServiceRate",
    "SteadyState",
    "Tuned",
    "UnitCosts",
    "ZipfKeys",
    "auto_plan",
    "calibrate",
    "compare",
    "fluid_bound",
    "hybridjoin_fluid",
    "keep_calibration",
    "kept_calibration",
    "longest_wait",
    "oldest_first",
    "pick",
    "predict",
    "read_bound",
    "read_plan",
    "service_rate",
    "tune",
    "write_plan",
]
