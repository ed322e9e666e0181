"""What a join costs: the least number of page reads that any schedule needs."""

from __future__ import annotations

from penstock.costs.read_bound import (
    ReadBound,
    ReadBoundError,
    fluid_bound,
    hybridjoin_fluid,
    read_bound,
)

__all__ = ["ReadBound", "ReadBoundError", "fluid_bound", "hybridjoin_fluid", "read_bound"]
