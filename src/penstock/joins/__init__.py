"""The joins: each is a frozen plan in a file of its own; `plan.build` makes what runs."""

from penstock.joins.base import SemiStreamJoin
from penstock.joins.cachejoin import CacheJoin
from penstock.joins.cachejoin_l import CacheJoinL
from penstock.joins.cachejoin_pq import CacheJoinPQ
from penstock.joins.hybridjoin import HybridJoin
from penstock.joins.hybridjoin_l import HybridJoinL
from penstock.joins.hybridjoin_pq import HybridJoinPQ
from penstock.joins.inlj import Inlj
from penstock.joins.meshjoin import MeshJoin, ReadCost
from penstock.joins.names import named
from penstock.joins.optimised_x_hybridjoin import OptimisedXHybridJoin
from penstock.joins.partitioned import PartitionedJoin
from penstock.joins.plan import JoinPlan
from penstock.joins.r_meshjoin import RMeshJoin
from penstock.joins.rootjoin import RootJoin
from penstock.joins.sscj import Sscj
from penstock.joins.ssij import Ssij
from penstock.joins.tuned_x_hybridjoin import TunedXHybridJoin
from penstock.joins.x_hybridjoin import XHybridJoin

__all__ = [
    "CacheJoin",
    "CacheJoinL",
    "CacheJoinPQ",
    "HybridJoin",
    "HybridJoinL",
    "HybridJoinPQ",
    "Inlj",
    "JoinPlan",
    "MeshJoin",
    "OptimisedXHybridJoin",
    "PartitionedJoin",
    "RMeshJoin",
    "ReadCost",
    "RootJoin",
    "SemiStreamJoin",
    "Sscj",
    "Ssij",
    "TunedXHybridJoin",
    "XHybridJoin",
    "named",
]
