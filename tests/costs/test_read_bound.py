"""The read bound against brute force, against every schedule, and against simulated ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from penstock.costs import ReadBoundError, fluid_bound, hybridjoin_fluid, read_bound
from penstock.costs.read_bound import _bracket
from penstock.errors import PenstockError

Floats = npt.NDArray[np.float64]

SMALL_RATES = [
    [1.0],
    [0.5, 0.5],
    [0.9, 0.1],
    [0.6, 0.3, 0.1],
    [4.0, 4.0, 1.0],
    [0.97, 0.01, 0.01, 0.01],
]
SMALL_WINDOWS = [0, 0.3, 0.5, 1, 1.25, 2, 3, 3.4, 4]


def random_rates(seed: int, pages: int) -> Floats:
    return np.random.default_rng(seed).pareto(1.0, pages) + 1e-3


def zipf_pages(exponent: float, page_rows: int, *, seed: int | None, cached: int = 0) -> Floats:
    """Page rates of 2 M Zipf keys; sorted by frequency without a seed, shuffled with one."""
    rates = np.arange(1, 2_000_001, dtype=np.float64) ** -exponent
    rates[:cached] = 0.0
    if seed is not None:
        np.random.default_rng(seed).shuffle(rates)
    return np.add.reduceat(rates, np.arange(0, rates.size, page_rows))


# --- the value -----------------------------------------------------------------------------------


def brute_force(rates: list[float], window: float) -> float:
    """Least reads over all integer thresholds and all ways to share time between them."""
    shares = np.array(rates) / sum(rates)
    most = int(2 * window) + 3
    fewest: dict[int, float] = {}
    for thresholds in itertools.product(range(1, most + 1), repeat=len(rates)):
        half_rows = sum(thresholds) - len(rates)
        reads = float((shares / np.array(thresholds)).sum())
        fewest[half_rows] = min(fewest.get(half_rows, math.inf), reads)
    points = [(half_rows / 2, reads) for half_rows, reads in fewest.items()]
    below = [point for point in points if point[0] <= window]
    above = [point for point in points if point[0] > window]
    chords = (
        a[1] + (b[1] - a[1]) * (window - a[0]) / (b[0] - a[0])
        for a, b in itertools.product(below, above)
    )
    return min(min(chords), *(reads for _, reads in below))


@pytest.mark.parametrize("window", SMALL_WINDOWS)
@pytest.mark.parametrize("rates", SMALL_RATES, ids=str)
def test_equals_brute_force(rates: list[float], window: float) -> None:
    assert read_bound(rates, window).reads_per_row == pytest.approx(
        brute_force(rates, window), rel=1e-12
    )


@pytest.mark.parametrize("window", [0, 0.4, 7, 12.25, 100, 5_000.5])
@pytest.mark.parametrize("seed", range(5))
def test_thresholds_reach_the_bound_and_meet_the_window_exactly(seed: int, window: float) -> None:
    rates = random_rates(seed, 60)
    rates[::7] = 0.0
    shares = rates / rates.sum()
    bound = read_bound(rates, window)
    k = bound.thresholds
    assert 0.0 <= bound.marginal_share < 1.0
    assert ((k - 1).sum() + bound.marginal_share) / 2 == pytest.approx(window, rel=1e-12)
    assert (k[::7] == 1).all()
    used = rates > 0
    assert ((k * (k - 1))[used] * bound.theta <= 2 * shares[used] * (1 + 1e-9)).all()
    assert ((k * (k + 1))[used] * bound.theta >= 2 * shares[used] * (1 - 1e-9)).all()
    reads = float((shares / k).sum()) - bound.marginal_share * bound.theta / 2
    assert bound.reads_per_row == pytest.approx(reads, rel=1e-12)
    assert bound.rows_per_read == pytest.approx(1 / reads, rel=1e-12)


@pytest.mark.parametrize("window", [3.5, 40, 700])
def test_every_multiplier_gives_a_smaller_value(window: float) -> None:
    rates = random_rates(11, 40)
    shares = rates / rates.sum()
    bound = read_bound(rates, window)
    counts = np.arange(1, 4_000)
    for factor in (0.2, 0.9, 1.0, 1.1, 5.0):
        theta = bound.theta * factor
        per_page = (shares[:, None] / counts + theta * (counts - 1) / 2).min(axis=1)
        dual = per_page.sum() - theta * window
        assert dual <= bound.reads_per_row * (1 + 1e-12)
        if factor == 1.0:
            assert dual == pytest.approx(bound.reads_per_row, rel=1e-12)


@pytest.mark.parametrize("gathered", [1, 2, 3, 10, 1_000])
def test_equal_rates_gather_equal_counts(gathered: int) -> None:
    pages = 500
    bound = read_bound(np.ones(pages), pages * (gathered - 1) / 2)
    assert (bound.thresholds == gathered).all()
    assert bound.marginal_share == 0.0
    assert bound.rows_per_read == pytest.approx(gathered, rel=1e-12)


def test_without_a_window_each_row_is_a_read() -> None:
    bound = read_bound([5, 3, 2], 0)
    assert bound.reads_per_row == pytest.approx(1.0, rel=1e-15)
    assert bound.thresholds.tolist() == [1, 1, 1]
    assert bound.theta == pytest.approx(0.5, rel=1e-15)


def test_falls_with_the_window_at_a_falling_rate_given_by_theta() -> None:
    rates = random_rates(3, 200)
    windows = np.linspace(0, 300, 1_201)
    bounds = [read_bound(rates, window) for window in windows]
    reads = np.array([bound.reads_per_row for bound in bounds])
    slopes = np.diff(reads) / np.diff(windows)
    assert (slopes < 0).all()
    assert (np.diff(slopes) >= -1e-12).all()
    assert slopes == pytest.approx([-bound.theta for bound in bounds[:-1]], rel=1e-6)


@pytest.mark.parametrize("factor", [1e-300, 1e-9, 3.0, 1e300])
def test_only_the_ratios_of_rates_matter(factor: float) -> None:
    rates = random_rates(5, 100)
    plain, scaled = read_bound(rates, 77), read_bound(rates * factor, 77)
    assert scaled.reads_per_row == pytest.approx(plain.reads_per_row, rel=1e-12)
    assert scaled.thresholds.tolist() == plain.thresholds.tolist()
    assert scaled.theta == pytest.approx(plain.theta, rel=1e-12)


def test_pages_without_rows_change_nothing() -> None:
    rates = random_rates(6, 50)
    padded = np.concatenate([np.zeros(30), rates, np.zeros(1_000)])
    plain, with_empty = read_bound(rates, 90), read_bound(padded, 90)
    assert with_empty.reads_per_row == pytest.approx(plain.reads_per_row, rel=1e-12)
    assert with_empty.thresholds[30:80].tolist() == plain.thresholds.tolist()
    assert (with_empty.thresholds[80:] == 1).all()


@pytest.mark.parametrize("window", [0.5, 3, 50, 4_000, 1e9])
@pytest.mark.parametrize("pages", [1, 2, 30, 3_000])
def test_lies_between_the_two_fluid_forms(pages: int, window: float) -> None:
    rates = random_rates(pages, pages)
    fluid = fluid_bound(rates, window)
    bound = read_bound(rates, window).reads_per_row
    assert fluid * 2 * window / (2 * window + pages) <= bound * (1 + 1e-12)
    assert bound <= min(1.0, fluid) * (1 + 1e-12)


def test_hybridjoin_is_never_below_the_fluid_form() -> None:
    for seed in range(20):
        rates = random_rates(seed, 80)
        assert hybridjoin_fluid(80, 1_000) > fluid_bound(rates, 1_000)
    assert hybridjoin_fluid(80, 1_000) == pytest.approx(fluid_bound(np.ones(80), 1_000), rel=1e-12)


@pytest.mark.parametrize("window", [0, 0.5, 20, 4_000, 1e6, 1e12])
@pytest.mark.parametrize("pages", [1, 2, 30, 3_000])
def test_few_steps_are_left_open_whatever_the_window(pages: int, window: float) -> None:
    rates = random_rates(pages, pages)
    certain, possible = _bracket(rates / rates.sum(), 2 * window)
    assert (certain <= possible).all()
    assert certain.sum() <= 2 * window < possible.sum()
    assert possible.sum() - certain.sum() <= 3 * pages + 2


def test_a_million_pages() -> None:
    rates = random_rates(9, 1_000_000)
    bound = read_bound(rates, 400_000)
    assert (bound.thresholds - 1).sum() == 800_000
    assert bound.reads_per_row <= fluid_bound(rates, 400_000)


@pytest.mark.parametrize(
    ("exponent", "page_rows", "window", "shuffled", "cached", "rows_per_read"),
    [
        (1.0, 500, 400_000, False, 0, 751),
        (1.0, 500, 400_000, True, 0, 283),
        (1.0, 68, 400_000, True, 0, 49.7),
        (1.3, 500, 400_000, True, 0, 880),
        (0.5, 500, 400_000, True, 0, 201),
        (1.0, 500, 20_000, True, 0, 15.5),
        (1.0, 68, 20_000, True, 0, 4.1),
        (1.0, 500, 400_000, True, 20_000, 201),
    ],
)
def test_zipf_tables(
    exponent: float,
    page_rows: int,
    window: int,
    shuffled: bool,
    cached: int,
    rows_per_read: float,
) -> None:
    rates = zipf_pages(exponent, page_rows, seed=1 if shuffled else None, cached=cached)
    bound = read_bound(rates, window)
    assert bound.rows_per_read == pytest.approx(rows_per_read, rel=0.015)


# --- the proof -----------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [0, 3, 40.3, 900])
def test_the_account_of_each_page_is_as_the_proof_says(window: float) -> None:
    rates = random_rates(2, 25)
    shares = rates / rates.sum()
    bound = read_bound(rates, window)
    waiting = np.arange(int(bound.thresholds.max()) * 3 + 10)
    for share, threshold in zip(shares, bound.thresholds, strict=True):
        gain = share / threshold + bound.theta * (threshold - 1) / 2
        formula = (gain * waiting - bound.theta * waiting * (waiting - 1) / 2) / share
        account = np.where(waiting < threshold, formula, 1.0)
        deposits = np.diff(account)
        assert account[0] == 0.0
        assert account.max() <= 1 + 1e-9
        assert deposits.min() >= -1e-9
        assert (share * deposits + bound.theta * waiting[:-1]).min() >= gain - 1e-12


KEPT = -1


def choices(rows: int) -> list[tuple[int, int]]:
    """Reads and what then waits, for one page: leave it, drop or read it, read and keep it."""
    if rows == KEPT:
        return [(0, KEPT), (0, 0)]
    return [(0, rows), (1, 0), (1, KEPT)]


def least_reads_of_all_schedules(
    rates: list[float], window: int, kept: int = 0
) -> tuple[float, float]:
    """Enclose the reads per row of the best schedule, by value iteration over all of them.

    After each decision at most `window` rows wait and at most `kept` pages are held in memory.
    Damped against periodic schedules; the least and the largest step enclose the optimum.
    """
    pages = len(rates)
    states = [
        state
        for state in itertools.product(range(KEPT, window + 1), repeat=pages)
        if sum(max(rows, 0) for rows in state) <= window and state.count(KEPT) <= kept
    ]
    number = {state: i for i, state in enumerate(states)}
    # Each choice is one column, padded with choices too dear to be taken.
    reads = np.full((len(states), pages, 3**pages), 1e9)
    successor = np.zeros(reads.shape, dtype=np.int64)
    for s, state in enumerate(states):
        for arrival in range(pages):
            held = list(state)
            held[arrival] += held[arrival] != KEPT
            for c, choice in enumerate(itertools.product(*map(choices, held))):
                after = tuple(rows for _, rows in choice)
                if after in number:
                    reads[s, arrival, c] = sum(cost for cost, _ in choice)
                    successor[s, arrival, c] = number[after]
    shares = np.array(rates) / sum(rates)
    value = step = np.zeros(len(states))
    for _ in range(20_000):
        step = (reads + value[successor]).min(axis=2) @ shares - value
        if step.max() - step.min() < 1e-7:
            break
        value = value + step / 2
        value -= value[0]
    return float(step.min()), float(step.max())


@pytest.mark.parametrize(
    ("rates", "window"),
    [
        ([1.0], 4),
        ([0.5, 0.5], 1),
        ([0.5, 0.5], 6),
        ([0.9, 0.1], 7),
        ([0.6, 0.3, 0.1], 5),
        ([0.4, 0.3, 0.2, 0.1], 4),
    ],
    ids=str,
)
def test_no_schedule_at_all_reads_less(rates: list[float], window: int) -> None:
    lower, upper = least_reads_of_all_schedules(rates, window)
    bound = read_bound(rates, window).reads_per_row
    assert upper - lower < 1e-6
    assert bound <= lower + 1e-9
    # With a handful of pages a full window is seldom full on average: the bound is not tight.
    assert upper <= 2 * bound


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("rates", [[0.5, 0.5], [0.5, 0.3, 0.2], [0.4, 0.4, 0.2]], ids=str)
def test_a_page_kept_in_memory_leaves_the_bound_of_the_others(
    rates: list[float], window: int
) -> None:
    lower, upper = least_reads_of_all_schedules(rates, window, kept=1)
    others = sorted(rates)[:-1]
    bound = sum(others) * read_bound(others, window).reads_per_row
    assert upper - lower < 1e-6
    assert bound <= lower + 1e-9
    assert upper < least_reads_of_all_schedules(rates, window)[0]


# --- simulated schedules -------------------------------------------------------------------------

Pick = Callable[["Waiting"], int]


class Waiting:
    """Rows waiting by page: how many, since when, and the sum of their arrival times."""

    def __init__(self, shares: Floats, seed: int) -> None:
        self.shares = shares
        self.random = np.random.default_rng(seed)
        self.now = 0
        self.count = np.zeros(shares.size, dtype=np.int64)
        self.first = np.zeros(shares.size, dtype=np.int64)
        self.arrivals = np.zeros(shares.size, dtype=np.int64)


def oldest(waiting: Waiting) -> int:
    return int(np.where(waiting.count > 0, waiting.first, waiting.now + 1).argmin())


def longest_wait(waiting: Waiting) -> int:
    return int((waiting.count * waiting.now - waiting.arrivals).argmax())


def known_rates(waiting: Waiting) -> int:
    return int((waiting.count * (waiting.count + 1) / waiting.shares).argmax())


def fullest(waiting: Waiting) -> int:
    return int(waiting.count.argmax())


def at_random(waiting: Waiting) -> int:
    return int(waiting.random.choice(np.flatnonzero(waiting.count)))


def simulate(pick: Pick, shares: Floats, window: int, rows: int, seed: int) -> tuple[int, int]:
    """Page reads of a run, and the reads that would empty its window at the end."""
    waiting = Waiting(shares, seed)
    held = reads = 0
    for page in waiting.random.choice(shares.size, size=rows, p=shares).tolist():
        waiting.now += 1
        if waiting.count[page] == 0:
            waiting.first[page] = waiting.now
        waiting.count[page] += 1
        waiting.arrivals[page] += waiting.now
        held += 1
        while held > window:
            chosen = pick(waiting)
            held -= int(waiting.count[chosen])
            waiting.count[chosen] = waiting.arrivals[chosen] = 0
            reads += 1
    return reads, int(np.count_nonzero(waiting.count))


@pytest.mark.parametrize("window", [5, 60, 400])
@pytest.mark.parametrize("pick", [oldest, longest_wait, known_rates, fullest, at_random])
def test_no_simulated_schedule_reads_less(pick: Pick, window: int) -> None:
    rows = 30_000
    shares = 1 / np.arange(1.0, 41.0)
    shares /= shares.sum()
    reads, left = simulate(pick, shares, window, rows, seed=17)
    bound = rows * read_bound(shares, window).reads_per_row
    # The reads of a run scatter by at most the root of their number (docs/read-bound.md).
    assert reads + left >= bound - 4 * math.sqrt(reads + left)
    if pick is known_rates:
        assert reads <= 1.15 * bound
    if pick is oldest:
        assert reads >= 1.15 * bound


def test_a_short_run_reads_less_only_until_its_window_is_emptied() -> None:
    rows, window = 200_000, 20_000
    rates = zipf_pages(1.0, 500, seed=1)
    shares = rates / rates.sum()
    reads, left = simulate(known_rates, shares, window, rows, seed=5)
    bound = rows * read_bound(shares, window).reads_per_row
    assert reads < 0.95 * bound
    assert reads + left > bound


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rates", "window", "says"),
    [
        ([], 1, "None of the 0 pages"),
        ([0.0, 0.0], 1, "None of the 2 pages"),
        ([0.5, -0.1, math.nan], 1, "2 of 3 rates"),
        ([0.5, math.inf], 1, "1 of 2 rates"),
        ([[0.5, 0.5]], 1, r"shape \(1, 2\)"),
        ([1.0], -1, "holds -1 rows"),
        ([1.0], math.nan, "holds nan rows"),
        ([1.0], math.inf, "holds inf rows"),
    ],
)
def test_refuses_what_has_no_bound(rates: list[float], window: float, says: str) -> None:
    with pytest.raises(ReadBoundError, match=says):
        read_bound(rates, window)


def test_fluid_forms_need_a_window_and_a_page() -> None:
    with pytest.raises(ValueError, match="holds 0 rows"):
        fluid_bound([1.0], 0)
    with pytest.raises(PenstockError, match="at least one page; got 0"):
        hybridjoin_fluid(0, 10)


def test_the_result_cannot_be_changed() -> None:
    bound = read_bound([1, 2], 3)
    with pytest.raises(ValueError, match="read-only"):
        bound.thresholds[0] = 7
