"""Work that is done once, whoever asks for it, and whose result is kept in a file."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, Literal

from penstock.errors import BudgetError, PenstockError
from penstock.experiments.case import Case
from penstock.experiments.counting import READINGS, count
from penstock.experiments.price import Price
from penstock.experiments.workplace import Workplace

Clock = Literal["counted", "measured"]
CLOCKS: tuple[Clock, ...] = ("counted", "measured")
_MASTER_ROW = 120
_SLOWER = {"tpch": 6.0, "weather": 2.0}
"""How much longer a run takes where rows have texts, or many partners."""


@dataclass(frozen=True)
class Job(ABC):
    """One thing to run. Jobs with the same fields are the same job.

    A *measured* job runs alone, on one core; its seconds mean something. Others run side by side.
    """

    clock: Clock

    @property
    def key(self) -> str:
        said = json.dumps(
            {"what": type(self).__name__, **asdict(self)}, sort_keys=True, default=str
        )
        return hashlib.sha256(said.encode()).hexdigest()[:20]

    @property
    def weight(self) -> float:
        """How long it takes, in some unit that is the same for all."""
        return 1.0

    @property
    def reads(self) -> str:
        """The name of the R that it reads, if it has one."""
        return ""

    @property
    @abstractmethod
    def what(self) -> str:
        """What it runs, for whoever looks on."""

    @abstractmethod
    def run(self, place: Workplace) -> dict[str, Any]:
        """The values."""

    def __str__(self) -> str:
        return f"{self.clock}: {self.what}"


@dataclass(frozen=True)
class CaseJob(Job):
    """A join on its case. `divisor` is the scale's, for prices, and so are `readings`."""

    case: Case
    divisor: int
    readings: int = READINGS
    calibrated: bool = False

    @property
    def weight(self) -> float:
        pages = self.case.rows * _MASTER_ROW / self.case.page_bytes
        plain = 1.0 + self.case.budget / 1e7 + pages / 1e4
        return plain * _SLOWER.get(self.case.workload, 1.0)

    @property
    def reads(self) -> str:
        return self.case.master_name

    @property
    def what(self) -> str:
        return str(self.case)

    def run(self, place: Workplace) -> dict[str, Any]:
        stream = place.stream(self.case)
        if self.case.is_rival:
            from penstock.experiments.rival_runs import count_rival

            path = place.path_of(self.case, stream)
            direct = self.clock == "measured"
            try:
                return count_rival(self.case, path, stream, place.folder, direct=direct)
            except BudgetError as error:
                return {"refused": str(error)}
        price = Price.at(self.divisor)
        with place.master(self.case, stream, on_disk=self.clock == "measured") as master:
            costs = None
            try:
                if self.calibrated:
                    from penstock.costs import calibrate

                    on = [(stream.key, stream.master_key)]
                    costs = calibrate(master, stream.schema, on=on, budget=self.case.budget)
                values = count(
                    self.case, master, stream, price, readings=self.readings, costs=costs
                )
            except PenstockError as error:
                return {"refused": str(error)}
            if costs is not None:
                values["unit_costs"] = costs.to_dict()
            return {
                **values,
                "pages": master.num_pages,
                "page_rows": _page_rows(master),
                "direct": getattr(master, "direct", False),
            }


def _page_rows(master: Any) -> float:
    return float(master.num_rows / max(master.num_pages, 1))
