"""The self-similar generator: bursts at many scales, never negative, seekable."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams import Bursty, WorkloadError

BLOCK = 65_536  # steps made at once


def variances(counts: np.ndarray, scales: tuple[int, ...]) -> np.ndarray:
    """Variance of the mean count over `scale` steps, for each scale."""
    return np.array([counts.reshape(-1, scale).mean(axis=1).var() for scale in scales])


def test_counts_stay_bursty_where_poisson_counts_even_out() -> None:
    scales = (1, 4, 16, 64, 256)
    counts = Bursty().rows_per_step(0, 2**20).astype(float)
    poisson = np.random.default_rng(7).poisson(counts.mean(), 2**20).astype(float)
    bursty_slope = np.polyfit(np.log(scales), np.log(variances(counts, scales)), 1)[0]
    poisson_slope = np.polyfit(np.log(scales), np.log(variances(poisson, scales)), 1)[0]
    assert -1.05 < poisson_slope < -0.95
    assert bursty_slope > -0.3
    assert (variances(counts, scales) > 20 * variances(poisson, scales)).all()


def test_mean_rate_is_the_promised_one() -> None:
    bursts = Bursty.at_rate(2000, streams=6)
    assert bursts.mean_rows_per_second == pytest.approx(2000, rel=1e-3)
    rows = 2_000_000
    seconds = bursts.times(rows - 1, rows)[0] / 1e6
    assert rows / seconds == pytest.approx(2000, rel=0.05)


@pytest.mark.parametrize("streams", [1, 4, 10])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bandwidth_is_never_negative_and_has_every_stream(streams: int, seed: int) -> None:
    bandwidth = Bursty(streams=streams, seed=seed).bandwidth(0, 4 * BLOCK)
    assert bandwidth.min() == 0
    assert bandwidth.max() == 2 ** (streams + 1) - 2
    for i in range(1, streams + 1):
        share_on = ((bandwidth >> i) & 1).mean()
        assert 0.42 < share_on < 0.58


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_published_bandwidth_goes_negative(seed: int) -> None:
    published = Bursty(seed=seed, as_published=True)
    bandwidth = published.bandwidth(0, 8 * BLOCK)
    assert bandwidth.min() < 0
    assert bandwidth.max() > 2**11 - 2  # and above what all virtual streams have together
    rows = published.rows_per_step(0, 8 * BLOCK)
    assert rows.min() == 0
    assert np.array_equal(rows, np.where(bandwidth > 0, bandwidth, 0))


@pytest.mark.parametrize("as_published", [False, True])
def test_equals_the_pseudo_code_run_event_by_event(as_published: bool) -> None:
    """The same switching times, fed to a queue one at a time."""
    from penstock.streams.randomness import bits, lane, uniform

    streams, steps, seed = 4, 3_000, 5
    holds = [
        (uniform(bits(lane(seed, f"switch {i}"), 0, 2 * steps)) * 2**i).tolist()
        for i in range(1, streams + 1)
    ]
    due = [hold[0] for hold in holds]
    made, on, shared_on, total, expected = [0] * streams, [False] * streams, False, 0, []
    for step in range(steps):
        while min(due) < step + 1:
            i = due.index(min(due))
            was_on = shared_on if as_published else on[i]
            total += -(2 ** (i + 1)) if was_on else 2 ** (i + 1)
            shared_on, on[i] = not shared_on, not on[i]
            made[i] += 1
            due[i] += holds[i][made[i]]
        expected.append(total)
    bursts = Bursty(streams=streams, seed=seed, as_published=as_published)
    assert bursts.bandwidth(0, steps).tolist() == expected


@pytest.mark.parametrize("as_published", [False, True])
def test_any_order_of_calls_gives_the_same_steps(as_published: bool) -> None:
    forward = Bursty(streams=5, seed=3, as_published=as_published)
    whole = forward.bandwidth(0, 7 * BLOCK)
    backward = Bursty(streams=5, seed=3, as_published=as_published)
    edges = [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5, 6 * BLOCK, 7 * BLOCK]
    for first, last in reversed(list(pairwise(edges))):
        assert np.array_equal(backward.bandwidth(first, last), whole[first:last])


def test_steps_get_their_rows_in_order_and_evenly() -> None:
    bursts = Bursty(streams=3, step_us=1000)
    counts = bursts.rows_per_step(0, 2 * BLOCK)
    times = bursts.times(0, int(counts.sum()))
    assert (np.diff(times) >= 0).all()
    assert np.array_equal(np.bincount(times // 1000, minlength=2 * BLOCK), counts)
    # gaps within one step differ by rounding alone
    full = times[times // 1000 == int(np.argmax(counts))]
    assert np.ptp(np.diff(full)) <= 1


SHARED = Bursty(streams=2, seed=9)


@settings(deadline=None, max_examples=60)
@given(start=st.integers(0, 900_000), cuts=st.lists(st.integers(0, 5_000), max_size=4))
def test_times_do_not_depend_on_the_batching(start: int, cuts: list[int]) -> None:
    edges = [start, *sorted(start + cut for cut in cuts), start + 5_000]
    parts = [SHARED.times(a, b) for a, b in pairwise(edges)]
    fresh = pickle.loads(pickle.dumps(SHARED))
    assert np.array_equal(np.concatenate(parts), fresh.times(start, start + 5_000))


def test_pickles_without_its_blocks() -> None:
    bursts = Bursty()
    bursts.times(10**8, 10**8 + 1)
    assert len(pickle.dumps(bursts)) < 500


def test_a_published_stream_that_falls_silent_says_so() -> None:
    published = Bursty(streams=10, seed=0, as_published=True)
    with pytest.raises(WorkloadError, match=r"does not arrive.*bandwidth stands at -"):
        published.times(10**15, 10**15 + 1)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(WorkloadError, match="virtual streams"):
        Bursty(streams=0)
    with pytest.raises(WorkloadError, match="step_us is 0"):
        Bursty(step_us=0)
    with pytest.raises(WorkloadError, match="Raise streams"):
        Bursty.at_rate(10**9, streams=1)
    with pytest.raises(WorkloadError, match="do not exist"):
        Bursty().bandwidth(5, 2)
    with pytest.raises(WorkloadError, match="do not exist"):
        Bursty().times(-1, 2)
