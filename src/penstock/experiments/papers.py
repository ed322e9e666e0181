"""The papers whose figures are run again, and ourselves."""

from __future__ import annotations

from typing import NamedTuple


class Paper(NamedTuple):
    """What a paper is called, who wrote it, where it was printed."""

    title: str
    authors: str
    venue: str


PAPERS = {
    "tuned-x-hybridjoin": Paper(
        "Tuned X-HYBRIDJOIN for near-real-time data warehousing",
        "M. A. Naeem",
        "LNCS 7808, 2013",
    ),
    "meshjoin-defaults": Paper(
        "Comparing global optimization and default settings of stream-based joins",
        "Naeem, Dobbie & Weber",
        "BIRTE 2009",
    ),
    "frequent-pages": Paper(
        "Optimising queue-based semi-stream joins by introducing a queue of frequent pages",
        "Naeem, Weber & Lutteroth",
        "ADC 2016",
    ),
    "optimised-x-hybridjoin": Paper(
        "Optimised X-HYBRIDJOIN for near-real-time data warehousing",
        "Naeem, Dobbie & Weber",
        "ADC 2012",
    ),
    "hybridjoin": Paper(
        "HYBRIDJOIN for near-real-time data warehousing",
        "Naeem, Dobbie & Weber",
        "IJDWM 7(4), 2011",
    ),
    "penstock": Paper("Beyond the papers", "Penstock", ""),
}
"""By the name that a figure's file gives, in the order in which they are reported."""
