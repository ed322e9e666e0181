"""What the smallest steps of a join cost: one read of R, one row taken in, found, put out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from penstock.errors import PenstockError


class CostError(PenstockError, ValueError):
    """Costs that make no sense, or that cannot be read."""


@dataclass(frozen=True)
class ReadCurve:
    """Seconds of one read of R by its size (c_IO), linear between the sizes that were measured.

    Beyond the last size it goes on as between the last two; below the first it is the first's.

    >>> curve = ReadCurve((8192.0, 65536.0, 1048576.0), (87e-6, 109e-6, 262e-6))
    >>> round(curve.of(65536) * 1e6), round(curve.of(2 * 1048576) * 1e6)
    (109, 425)
    """

    nbytes: tuple[float, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes, seconds = self.nbytes, self.seconds
        if not sizes or len(sizes) != len(seconds):
            raise CostError(f"{len(sizes)} sizes have {len(seconds)} times; give one for each.")
        ascend = all(np.diff(sizes) > 0)
        if not ascend or not all(0.0 <= v < np.inf for v in (*sizes, *seconds)):
            raise CostError("sizes ascend, and neither sizes nor times are negative or no numbers.")

    def of(self, nbytes: float) -> float:
        """Seconds of a read of so many bytes."""
        sizes, seconds = self.nbytes, self.seconds
        if nbytes <= sizes[-1] or len(sizes) == 1:
            return float(np.interp(nbytes, sizes, seconds))
        slope = max(seconds[-1] - seconds[-2], 0.0) / (sizes[-1] - sizes[-2])
        return seconds[-1] + slope * (nbytes - sizes[-1])

    def times(self, factor: float) -> ReadCurve:
        """The same reads, each so many times as long."""
        return ReadCurve(self.nbytes, tuple(factor * seconds for seconds in self.seconds))


@dataclass(frozen=True)
class UnitCosts:
    """The costs of which models are made; nanoseconds, but for reads.

    Attributes:
        reads: c_IO, the seconds of one read by its size, for each number of reads that are asked
            for together.
        probe: c_H, look one key up in a hash table, or in a page.
        emit: c_O, put one row out.
        remove: c_E, take one row off the window.
        take: c_S, take one row of the stream in.
        add: c_A, put one row into the window.
        page: ours: what is done once for each page that is read, beside its rows.
        turn: ours: what is done once for each call to read, be it for one page or for many.
        slice: ours: what is done once for each batch that is taken in, or each slice of it.
        piece: ours: what is done once for each batch that is put out.
        learn: ours: per read that a cache learns from.
        look: ours: and per row of R that it brings.
        choose: ours: per call to read, where all pages are weighed (ROOTJOIN).
        weigh: ours: and per page of it, for its keys.
        kinds: the same costs, in joins of some kinds, where they are others.
        source: where the numbers come from.
    """

    reads: Mapping[int, ReadCurve]
    probe: float
    emit: float
    remove: float
    take: float
    add: float
    page: float = 0.0
    turn: float = 0.0
    slice: float = 0.0
    piece: float = 0.0
    learn: float = 0.0
    look: float = 0.0
    choose: float = 0.0
    weigh: float = 0.0
    kinds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    source: str = field(default="given", compare=False)

    def __post_init__(self) -> None:
        _require_costs({name: getattr(self, name) for name in ROW_COSTS})
        for costs in self.kinds.values():
            if not set(costs) <= set(ROW_COSTS):
                raise CostError(f"{', '.join(sorted(set(costs) - set(ROW_COSTS)))} is no cost.")
            _require_costs(costs)

    def of(self, kind: str) -> UnitCosts:
        """The costs in joins of this kind."""
        known: Mapping[str, Any] = self.kinds.get(kind, {})
        return replace(self, **known, kinds={}) if known else self

    def read_seconds(self, nbytes: float, together: int = 1) -> float:
        """Seconds of each of so many reads of this size that are asked for together."""
        known = sorted(self.reads)
        at = [self.reads[count].of(nbytes) for count in known]
        return float(np.interp(np.log(max(together, 1)), np.log(known), at))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "reads": {str(n): asdict(c) for n, c in self.reads.items()}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> UnitCosts:
        try:
            reads = {
                int(n): ReadCurve(_floats(c["nbytes"]), _floats(c["seconds"]))
                for n, c in values["reads"].items()
            }
            if not reads or min(reads) < 1:
                raise CostError("these are no costs of a calibration: they have no reads.")
            return cls(**{**values, "reads": reads})
        except CostError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CostError(f"these are no costs of a calibration: {error!r}.") from error


ROW_COSTS = tuple(f.name for f in fields(UnitCosts) if f.name not in ("reads", "kinds", "source"))


def _require_costs(costs: Mapping[str, object]) -> None:
    for name, cost in costs.items():
        if not isinstance(cost, int | float) or not 0.0 <= cost < np.inf:
            raise CostError(f"{name}={cost!r} cannot be; give nanoseconds, 0 or more.")


def _floats(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
