"""Cost models of the published joins, as their papers print them.

    setting                  what a paper fixes (`Setting`), and one turn of a join (`Iteration`)
    paper_costs              what the papers print of their machine's costs, and what follows
    inlj                     ours: the papers measure it, and print no equation
    meshjoin                 tuned, and with the fixed disk buffer
    hybridjoin               with the published factor, and with the fluid one
    tuned_x_hybridjoin       as published, and corrected
    optimised_x_hybridjoin   as published, and corrected
    doubling                 its constants for doubled sizes
    zipf_sums, search        sums of rank^-skew, and the best number of pages

Each module has `iteration`, for given numbers of pages, and `tuned`, for the best ones. The models
of `penstock.costs` itself are ours; these are here to be compared with them and with measurement.
"""

from __future__ import annotations

from penstock.costs.published import (
    hybridjoin,
    inlj,
    meshjoin,
    optimised_x_hybridjoin,
    paper_costs,
    tuned_x_hybridjoin,
)
from penstock.costs.published.setting import MEBIBYTE, Form, Iteration, Setting

__all__ = [
    "MEBIBYTE",
    "Form",
    "Iteration",
    "Setting",
    "hybridjoin",
    "inlj",
    "meshjoin",
    "optimised_x_hybridjoin",
    "paper_costs",
    "tuned_x_hybridjoin",
]
