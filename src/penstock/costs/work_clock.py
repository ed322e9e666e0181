"""How long a running join spends on each of its steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from penstock.joins.base import SemiStreamJoin

TAKING, PROBING, READING, CHOOSING = "taking in", "probing", "reading", "choosing"
_METHODS = {
    "_take_in": TAKING,
    "_clear_the_way": "filing",
    "_admit_slice": "filing",
    "_read_pages": "opening",
    "_pages_are_done": "opening",
    "_answer_open_pages": "answering",
    "_learn": "learning",
    "_next_piece": "putting out",
    "fetch": READING,
}
"""The join's methods, by the step that each is."""
STEPS = (*dict.fromkeys(_METHODS.values()), PROBING, CHOOSING)


class WorkClock:
    """The seconds inside each step of a join, without those of the steps within.

    `seconds` has them by step, `calls` how often each was taken.
    """

    def __init__(self, join: SemiStreamJoin) -> None:
        self.seconds = dict.fromkeys(STEPS, 0.0)
        self.calls = dict.fromkeys(STEPS, 0)
        self._within: list[str] = []
        self._since = 0.0
        for method, step in _METHODS.items():
            self._watch(join, method, step)
        self._watch(join.schedule, "next", CHOOSING)
        if join.cache is not None:
            self._watch(join.cache, "split", PROBING)

    def _watch(self, part: object, method: str, step: str) -> None:
        does: Callable[..., Any] = getattr(part, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            self._turn_to(step)
            self.calls[step] += 1
            try:
                return does(*arguments, **named)
            finally:
                self._turn_to(None)

        setattr(part, method, timed)

    def _turn_to(self, step: str | None) -> None:
        """Another step begins, or with None the last one ends."""
        now = time.perf_counter()
        if self._within:
            self.seconds[self._within[-1]] += now - self._since
        if step is None:
            self._within.pop()
        else:
            self._within.append(step)
        self._since = now
