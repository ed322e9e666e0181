"""What the papers print of their machine's costs, and what can be said of those they do not.

None of the five papers prints a value of c_IO, c_H, c_O, c_E, c_S or c_A: their tables of notation
name the costs with their unit, nanoseconds, their tables of data give sizes, and c_IO is a figure
without a table. There is therefore no profile of their machine, and none is made up here.

One paper prints enough to say what its costs were *relative to each other*: for MESHJOIN and an R
of 3.5 million rows, the disk buffer that was best for four budgets, and what it gained over the
fixed one of 0.93 MB (`BEST_DISK_BUFFERS`). If a read costs as much as reading and probing A bytes,
and the bytes themselves, the best buffer B solves B² = A·(M − 2B) (`access_bytes`), and all four
give nearly the same A. The gains are smaller than this says, as the row costs dilute them, by the
same amount for all: a row costs as much as reading and probing some 45 bytes. With these two
ratios (`costs_of_2009`) the published equations give back all that the paper prints.

The papers, with the sizes of their tables; all have rows of R of 120 bytes, stream rows of 20:

- Naeem, Dobbie & Weber, "Comparing global optimization and default settings of stream-based joins",
  BIRTE 2009. Table 2: R of 3.5 million rows, pointers of 4 bytes, fudge factor 4.8, disk buffer of
  0.93 MB; memory of 20 to 320 MB.
- Naeem, Dobbie & Weber, "HYBRIDJOIN for near-real-time data warehousing", IJDWM 7(4), 2011.
  Table 2: R of 0.5 to 8 million rows, 50 to 250 MB, exponents 0 to 1, nodes of 12 bytes. k = 1.36.
- Naeem, Dobbie & Weber, "Optimised X-HYBRIDJOIN for near-real-time data warehousing", ADC 2012.
  Table 2: nodes of 12 bytes; exponent 1; 2 million rows where memory varies.
- M. A. Naeem, "Tuned X-HYBRIDJOIN for near-real-time data warehousing". Table 1: R of 0.5 to 8
  million rows, nodes of 12 bytes; 50 MB where R varies, 2 million rows where memory does.
- Naeem, Weber & Lutteroth, "Optimising queue-based semi-stream joins by introducing a queue of
  frequent pages", ADC 2016: pages of 8 KiB, nodes of 12 bytes. No cost model.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.costs.published.setting import MEBIBYTE, Setting
from penstock.costs.unit_costs import CostError, ReadCurve, UnitCosts

MESHJOIN_2009 = Setting(num_rows=3_500_000, budget=20 * MEBIBYTE)
"""The setting of the MESHJOIN paper's tuning at its smallest budget."""


class BestDiskBuffer(NamedTuple):
    """What the paper of 2009 prints for one budget (its section 4.4).

    Attributes:
        budget: bytes.
        disk_buffer: bytes at which the service rate was highest.
        gain: of the service rate over the disk buffer of 0.93 MB, as a share.
    """

    budget: float
    disk_buffer: float
    gain: float


BEST_DISK_BUFFERS = (
    BestDiskBuffer(20 * MEBIBYTE, 0.93 * MEBIBYTE, 0.0),
    BestDiskBuffer(40 * MEBIBYTE, 1.35 * MEBIBYTE, 0.004),
    BestDiskBuffer(80 * MEBIBYTE, 1.91 * MEBIBYTE, 0.0117),
    BestDiskBuffer(160 * MEBIBYTE, 2.63 * MEBIBYTE, 0.0178),
)
ACCESS_BYTES = 49 * 1024
"""Ours, from these: bytes of R that could be read and probed in the time that a read takes to
begin."""
ROW_BYTES = 45
"""Ours, from these: bytes of R that could be read and probed while one stream row is taken, added,
put out and removed."""


def access_bytes(budget: float, best_disk_buffer: float) -> float:
    """A = B²/(M − 2B): what the best disk buffer says of the cost to begin a read.

    >>> [round(access_bytes(b.budget, b.disk_buffer) / 1024, 1) for b in BEST_DISK_BUFFERS]
    [48.8, 50.0, 49.0, 45.8]
    """
    return best_disk_buffer**2 / (budget - 2.0 * best_disk_buffer)


def costs_of_2009(bytes_per_second: float, *, probe: float = 0.0) -> UnitCosts:
    """Costs in the ratios that the paper of 2009 implies. Their scale is the caller's.

    Args:
        bytes_per_second: R that is read and probed in a second, but for beginning to read; not
            printed, so that rates have the shape of the paper's and no more.
        probe: c_H in nanoseconds, the probes' part of that; not printed either. What is left is
            c_IO's. MESHJOIN's rate is the same for all.

    The four costs of a stream row are equal: only their sum can be told.

    >>> costs = costs_of_2009(10e6)
    >>> round(costs.read_seconds(0) * 1e3, 2), costs.take
    (5.02, 1125.0)
    """
    by_byte = 1.0 / bytes_per_second
    by_byte_read = by_byte - 1e-9 * probe / MESHJOIN_2009.disk_row_bytes
    if by_byte_read < 0.0:
        raise CostError(
            f"probing a row of {MESHJOIN_2009.disk_row_bytes:g} bytes in {probe:g} ns is slower "
            f"than {bytes_per_second:g} bytes a second. Lower one of the two."
        )
    begin = ACCESS_BYTES * by_byte
    by_row = 1e9 * ROW_BYTES * by_byte / 4.0
    curve = ReadCurve((0.0, float(MEBIBYTE)), (begin, begin + MEBIBYTE * by_byte_read))
    return UnitCosts(
        {1: curve},
        probe=probe,
        emit=by_row,
        remove=by_row,
        take=by_row,
        add=by_row,
        source="ratios after Naeem, Dobbie & Weber (BIRTE 2009); the scale is given",
    )
