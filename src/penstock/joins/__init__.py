"""Every join: plans that a person writes; `plan.build(...)` gives the operator that runs."""

from penstock.joins.base import JoinPlan, SemiStreamJoin
from penstock.joins.hybridjoin import HybridJoin
from penstock.joins.rootjoin import RootJoin

__all__ = ["HybridJoin", "JoinPlan", "RootJoin", "SemiStreamJoin"]
