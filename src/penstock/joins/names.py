"""The joins by the names that the command line and pipeline files use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.errors import OptionError, did_you_mean
from penstock.joins.cachejoin import CacheJoin
from penstock.joins.cachejoin_l import CacheJoinL
from penstock.joins.cachejoin_pq import CacheJoinPQ
from penstock.joins.hybridjoin import HybridJoin
from penstock.joins.hybridjoin_l import HybridJoinL
from penstock.joins.hybridjoin_pq import HybridJoinPQ
from penstock.joins.inlj import Inlj
from penstock.joins.meshjoin import MeshJoin
from penstock.joins.optimised_x_hybridjoin import OptimisedXHybridJoin
from penstock.joins.partitioned import PartitionedJoin
from penstock.joins.plan import JoinPlan
from penstock.joins.r_meshjoin import RMeshJoin
from penstock.joins.rootjoin import RootJoin
from penstock.joins.sscj import Sscj
from penstock.joins.ssij import Ssij
from penstock.joins.tuned_x_hybridjoin import TunedXHybridJoin
from penstock.joins.x_hybridjoin import XHybridJoin

NAMES: dict[str, Callable[..., JoinPlan]] = {
    "inlj": Inlj,
    "meshjoin": MeshJoin,
    "meshjoin-default": partial(MeshJoin, disk_buffer="default"),
    "r-meshjoin": RMeshJoin,
    "partitioned": PartitionedJoin,
    "ssij": Ssij,
    "hybridjoin": HybridJoin,
    "hybridjoin-l": HybridJoinL,
    "hybridjoin-pq": HybridJoinPQ,
    "x-hybridjoin": XHybridJoin,
    "tuned-x-hybridjoin": TunedXHybridJoin,
    "optimised-x-hybridjoin": OptimisedXHybridJoin,
    "cachejoin": CacheJoin,
    "sscj": Sscj,
    "cachejoin-l": CacheJoinL,
    "cachejoin-pq": CacheJoinPQ,
    "rootjoin": RootJoin,
}
"""What each name makes, in the order in which the joins were published."""


def named(name: str, **options: Any) -> JoinPlan:
    """The plan of the join with this name, with these options.

    >>> named("hybridjoin-l", budget="8MB", position=0.5).position
    0.5
    """
    make = NAMES.get(name.strip().lower().replace("_", "-"))
    if make is None:
        hint = did_you_mean(name, NAMES)
        raise OptionError(f"no join is named {name!r}; the names are {', '.join(NAMES)}.{hint}")
    try:
        return make(**options)
    except TypeError as error:
        raise OptionError(f"{name} takes other options: {error}.") from error
