"""The two theorems of the HYBRIDJOIN paper, looked for in page reads that our joins really make.

Let h be the rows of the window and *saturated* a stream that refills it before each read. The paper
proves, for HYBRIDJOIN and MESHJOIN with the same h:

1. no page is read more often than once per h rows, as MESHJOIN reads each;
2. a row costs no more than a constant number of reads, as in INLJ.

Hence HYBRIDJOIN takes at most a constant times what either takes, the constant being what a read of
one costs in reads of the other: in the authors' setting, under 2 for MESHJOIN and 5 for INLJ.

Naeem, Dobbie & Weber, "HYBRIDJOIN for near-real-time data warehousing", IJDWM 7(4), 2011, section
4.3. `docs/theorems.md` says how we read it, and what was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from penstock.experiments.case import ExperimentError
from penstock.experiments.page_log import (
    PageRead,
    Setting,
    closest_reads,
    closest_requests,
    most_reads_of_a_page,
    read_log,
    saturated,
)
from penstock.joins.hybridjoin import HybridJoin
from penstock.joins.inlj import Inlj
from penstock.joins.meshjoin import DEFAULT_READ_COST, MeshJoin, ReadCost
from penstock.keys import Int64s
from penstock.streams import Zipf
from penstock.streams.randomness import below, bits, lane

FACTORS = (2.0, 5.0)
"""The paper's worst factors, against MESHJOIN and against INLJ."""

_BUDGET = "1MB"
_HYBRID, _INLJ = HybridJoin(budget=_BUDGET), Inlj(budget=_BUDGET)
_MESH = MeshJoin(budget=_BUDGET, disk_buffer=1)
"""One page a step, as HYBRIDJOIN reads them."""


def hybrid_log(
    setting: Setting, keys: Int64s, pauses: Sequence[int] | None = None
) -> tuple[PageRead, ...]:
    """What HYBRIDJOIN reads."""
    return read_log(_HYBRID, setting, keys, pauses)


def mesh_log(setting: Setting, keys: Int64s) -> tuple[PageRead, ...]:
    """What MESHJOIN reads, one page a step; a step waits until its rows have come."""
    return read_log(_MESH, setting, keys)


def inlj_reads(setting: Setting, keys: Int64s) -> int:
    """How many pages INLJ reads."""
    return len(read_log(_INLJ, setting, keys))


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the theorems speak of, in one run of each join over one saturated stream.

    Reads are those of the whole run, its end included, at which the window is emptied.
    """

    setting: Setting
    rows: int
    hybrid_reads: int
    mesh_reads: int
    inlj_reads: int
    most_reads_of_a_page: int
    """By HYBRIDJOIN, within any h consecutive rows, while the window was full."""
    closest_reads: int | None
    """Rows between two such reads of one page, at the least."""
    closest_requests: int | None
    """Places of the stream between the rows that two of its reads were for, its end included."""

    @property
    def against_mesh(self) -> float:
        """Reads of HYBRIDJOIN for each of MESHJOIN."""
        return self.hybrid_reads / self.mesh_reads

    @property
    def per_row(self) -> float:
        """Reads of HYBRIDJOIN for each row; INLJ's are one."""
        return self.hybrid_reads / self.rows

    @property
    def theorem_1(self) -> bool:
        h = self.setting.window_rows
        apart = self.closest_requests is None or self.closest_requests >= h
        return self.most_reads_of_a_page <= 1 and apart and self.hybrid_reads <= self.mesh_reads

    @property
    def theorem_2(self) -> bool:
        return self.hybrid_reads <= self.inlj_reads == self.rows


def observe(setting: Setting, keys: Int64s) -> Observed:
    """Run the three joins over these keys, as fast as they take them."""
    if not len(keys):
        raise ExperimentError("a stream without rows shows nothing; give at least one key.")
    log, h = hybrid_log(setting, keys), setting.window_rows
    full = saturated(log, h)
    return Observed(
        setting=setting,
        rows=len(keys),
        hybrid_reads=len(log),
        mesh_reads=len(mesh_log(setting, keys)),
        inlj_reads=inlj_reads(setting, keys),
        most_reads_of_a_page=most_reads_of_a_page(full, h),
        closest_reads=closest_reads(full),
        closest_requests=closest_requests(log),
    )


# -- where the first does not hold -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """A stream of one page's rows on which HYBRIDJOIN reads that page more than once per h rows."""

    setting: Setting
    rows: int
    log: tuple[PageRead, ...]
    mesh_reads: int

    @property
    def most_reads_of_a_page(self) -> int:
        """Within h consecutive rows; the theorem's limit is 1."""
        return most_reads_of_a_page(self.log, self.setting.window_rows)

    @property
    def against_mesh(self) -> float:
        return len(self.log) / self.mesh_reads


SMALLEST = Setting(num_pages=1, window_rows=2)


def counterexample(setting: Setting = SMALLEST, rows: int = 2) -> Counterexample:
    """Rows of page 0 that trickle in, each when the window is empty again.

    HYBRIDJOIN does not wait, and reads for each; MESHJOIN waits until a step's rows have come.

    >>> smallest = counterexample()
    >>> [read.admitted for read in smallest.log], smallest.most_reads_of_a_page, smallest.mesh_reads
    ([1, 2], 2, 1)
    """
    keys = np.zeros(rows, dtype=np.int64)
    return Counterexample(
        setting=setting,
        rows=rows,
        log=hybrid_log(setting, keys, pauses=[1] * rows),
        mesh_reads=len(mesh_log(setting, keys)),
    )


def paper_loop(
    pages: Sequence[int], in_master: Sequence[bool], window_rows: int
) -> tuple[PageRead, ...]:
    """The paper's loop on a saturated stream, where of a page's rows only those matched leave.

    The oldest row of all leaves in any case: as the pseudo-code is printed, it too would stay if it
    has no partner, and its page would be read for ever.

    >>> [(r.page, r.admitted) for r in paper_loop([0, 0, 0], [False] * 3, 2)]
    [(0, 2), (0, 3), (0, 3)]
    """
    log: list[PageRead] = []
    window: list[int] = []
    admitted = 0
    while window or admitted < len(pages):
        more = min(window_rows - len(window), len(pages) - admitted)
        window += range(admitted, admitted + more)
        admitted += more
        oldest = window[0]
        log.append(PageRead(pages[oldest], admitted, len(window), oldest))
        stays = [row for row in window if pages[row] != pages[oldest] or not in_master[row]]
        window = [row for row in stays if row != oldest]
    return tuple(log)


# -- the worst that was seen -----------------------------------------------------------------------


def streams(setting: Setting, rows: int, seed: int) -> dict[str, Int64s]:
    """Streams that are hard on HYBRIDJOIN, and some that are not, by what they are."""
    n, h = setting.num_pages, setting.window_rows
    row = np.arange(rows)
    drawn = bits(lane(seed, "theorems: pages"), 0, rows)
    uniform = below(drawn, n)
    # What a first window of random pages leads to, if each page that was read comes back at once.
    found, firsts, counts = np.unique(uniform[:h], return_index=True, return_counts=True)
    order = np.argsort(firsts)
    again = np.resize(np.repeat(found[order], counts[order]), max(rows - h, 0))
    pages: dict[str, npt.NDArray[np.int64]] = {
        "one page": row * 0,
        "round robin": row % n,
        "round robin, backwards": n - 1 - row % n,
        "blocks of equal shares of the window": row // max(h // n, 1) % n,
        "blocks as long as the window": row // h % n,
        "as many pages as the window has rows": row % h % n,
        "every other row of one page": np.where(row % 2, 1 + row // 2 % max(n - 1, 1), 0) % n,
        "each page back as soon as it was read": np.concatenate([uniform[:h], again])[:rows],
        "uniform": uniform,
        "Zipf 1": Zipf(n, 1.0).ranks(drawn),
    }
    keys = {name: setting.keys_on(on, seed) for name, on in pages.items()}
    keys["one key"] = row * 0
    keys["uniform, half of the keys missing"] = setting.keys_on(uniform, seed, missing=True)
    return keys


def time_against_mesh(reads: float, transfer: float) -> float:
    """A factor in reads as one in time, if a page's transfer takes so many seeks and MESHJOIN never
    seeks.

    What else a turn costs is the same for both, and brings the factor nearer to 1.
    """
    return reads * (1 + transfer) / transfer


def time_against_inlj(reads_per_row: float, transfer: float, inlj_transfer: float = 0.0) -> float:
    """The same against INLJ, which seeks for each read, and transfers for `inlj_transfer` seeks."""
    return reads_per_row * (1 + transfer) / (1 + inlj_transfer)


@dataclass(frozen=True)
class WorstFactors:
    """What the three joins read on many streams, and the factors that follow from it."""

    runs: tuple[tuple[str, Observed], ...]

    @property
    def theorem_1(self) -> bool:
        return all(run.theorem_1 for _, run in self.runs)

    @property
    def theorem_2(self) -> bool:
        return all(run.theorem_2 for _, run in self.runs)

    @property
    def closest(self) -> tuple[str, Observed]:
        """Where two reads of one page were closest, in windows."""

        def windows(run: Observed) -> float:
            return inf if run.closest_reads is None else run.closest_reads / run.setting.window_rows

        return min(self.runs, key=lambda named: windows(named[1]))

    @property
    def worst_against_mesh(self) -> tuple[str, Observed]:
        return max(self.runs, key=lambda named: named[1].against_mesh)

    @property
    def worst_per_row(self) -> tuple[str, Observed]:
        return max(self.runs, key=lambda named: named[1].per_row)

    def against_mesh(self, transfer: float) -> float:
        return time_against_mesh(self.worst_against_mesh[1].against_mesh, transfer)

    def against_inlj(self, transfer: float, inlj_transfer: float = 0.0) -> float:
        return time_against_inlj(self.worst_per_row[1].per_row, transfer, inlj_transfer)

    def transfers_within(
        self, mesh: float = FACTORS[0], inlj: float = FACTORS[1]
    ) -> tuple[float, float]:
        """The least and the most seeks that a page's transfer may take for both factors to hold."""
        reads = self.worst_against_mesh[1].against_mesh
        least = reads / (mesh - reads) if mesh > reads else inf
        return least, inlj / self.worst_per_row[1].per_row - 1

    def page_bytes_within(self, cost: ReadCost = DEFAULT_READ_COST) -> tuple[float, float]:
        """The same in bytes of a page, where reads cost this."""
        a_seek = cost.seconds / cost.seconds_per_byte
        least, most = self.transfers_within()
        return least * a_seek, most * a_seek


SETTINGS = (
    Setting(num_pages=4, page_rows=8, window_rows=64),
    Setting(num_pages=16, page_rows=4, window_rows=200),
    Setting(num_pages=16, page_rows=4, window_rows=16),
    Setting(num_pages=64, page_rows=1, window_rows=16),
)


def worst_factors(
    seed: int = 7, settings: Sequence[Setting] = SETTINGS, windows: int = 10
) -> WorstFactors:
    """Run the three joins over all `streams`, each as long as so many windows."""
    return WorstFactors(
        tuple(
            (name, observe(setting, keys))
            for setting in settings
            for name, keys in streams(setting, windows * setting.window_rows, seed).items()
        )
    )
