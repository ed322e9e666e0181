"""What the models say of a case, beside what is measured of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.bench.case import JoinCase
from penstock.bench.join import operator
from penstock.costs.calibration import at_any_rate, calibrate, keep_calibration
from penstock.costs.key_rates import KnownKeys
from penstock.costs.predictions import Rates, predict
from penstock.costs.service_rate import service_rate
from penstock.costs.unit_costs import UnitCosts
from penstock.masters import Master

_PREDICTED = (
    "predicted_rows_per_read",
    "predicted_stream_rows_per_read",
    "predicted_rows_per_second",
    "predicted_hit_share",
    "predicted_with",
)


class Predictor:
    """Predicts the joins of one case on its master; rates of keys are computed once."""

    def __init__(self, case: JoinCase, master: Master, costs: UnitCosts | None = None) -> None:
        self._case, self._master, self._workload = case, master, case.workload()
        self.costs = costs or at_any_rate(master, self._workload.schema)
        self._rates = Rates(self._keys(), master)

    def _keys(self) -> KnownKeys:
        """The case's keys with their true shares."""
        ids = np.arange(self._case.rows, dtype=np.int64) * 2
        absent = self._case.missing > 0
        return KnownKeys(
            pa.array(ids + 1),
            self._workload.popularity(),
            pa.array(ids) if absent else None,
            self._workload.absences() if absent else None,
        )

    def of(self, name: str) -> dict[str, Any]:
        """`predicted_rows_per_read`, `predicted_rows_per_second`, and what they rest on.

        The models are of full windows: with `max_wait` there is no prediction.
        """
        if self._case.max_wait is not None:
            return dict.fromkeys(_PREDICTED)
        join = operator(name, self._case, self._master)
        join.push(self._workload.rows(0, self._case.batch_rows))
        found = predict(join, self._rates)
        rate = service_rate(join, found, self.costs, batch_rows=self._case.batch_rows)
        values = (
            found.rows_per_read,
            found.stream_rows_per_read,
            rate.rows_per_second,
            found.hit_share,
            self.costs.source,
        )
        return dict(zip(_PREDICTED, values, strict=True))


def calibrated(case: JoinCase, master: Master) -> UnitCosts:
    """Costs measured now, and kept for the next time."""
    workload = case.workload()
    costs = calibrate(master, workload.schema, on=workload.key, budget=case.budget_bytes)
    keep_calibration(costs, master, workload.schema)
    return costs
