"""Seeded workloads: streams and masters as Arrow batches, every row a function of its number.

| module | what it makes |
| --- | --- |
| `sales` | sales × products, Zipf's law: the papers' common data |
| `tpch` | TPC-H Orders × Customer |
| `weather` | weather reports × earlier ones, many-to-many on longitude |
| `zipf`, `permutation`, `drift` | which keys are hot, where they lie, how that moves |
| `arrivals`, `bursty` | event times: a constant rate, or bursts at every time scale |
| `base` | the `Workload` contract |
| `randomness`, `alias`, `attributes` | random numbers by position, and what is made of them |
"""

from penstock.streams.arrivals import Arrivals, ConstantRate
from penstock.streams.base import Workload, WorkloadError
from penstock.streams.bursty import Bursty
from penstock.streams.drift import AbruptDrift, Drift, GradualDrift
from penstock.streams.permutation import Permutation
from penstock.streams.sales import SalesStream
from penstock.streams.tpch import GeneratorError, TpchOrders
from penstock.streams.weather import WeatherReports
from penstock.streams.zipf import Zipf

__all__ = [
    "AbruptDrift",
    "Arrivals",
    "Bursty",
    "ConstantRate",
    "Drift",
    "GeneratorError",
    "GradualDrift",
    "Permutation",
    "SalesStream",
    "TpchOrders",
    "WeatherReports",
    "Workload",
    "WorkloadError",
    "Zipf",
]
