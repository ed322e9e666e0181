"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's.

    Attributes:
        name: what was looked at.
        verdict: "ok"; "warn" if something works less well or only in part; "fail" if Penstock on
            Spark cannot work like this.
        found: what is there.
        advice: what to do; empty when nothing is.
    """

    name: str
    verdict: Verdict
    found: str
    advice: str = ""

    def __post_init__(self) -> None:
        if self.verdict != "ok" and not self.advice:
            raise ValueError(f"{self.name}: {self.verdict} without advice")
