"""One line beside others: which is best, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Literal

from penstock.experiments.shapes.lines import (
    NOTHING,
    SAME,
    Finding,
    Lines,
    keyed,
    quotient,
    short,
    span_of,
    times,
)


def best(
    lines: Lines,
    *,
    series: str,
    among: Sequence[str],
    except_at: Sequence[Any] = (),
    within: float = SAME,
) -> Finding:
    """The series is the highest of these at every x (but for those left out), or as high.

    Somewhere it is higher than all, and it could run wherever one of the others could.
    """
    ratios: dict[Any, float] = {}
    worst_rival: dict[Any, str] = {}
    ours = lines.line(series)
    for x, mean in ours.items():
        others = {name: lines.line(name)[x] for name in among if x in lines.line(name)}
        if not others or x in except_at:
            continue
        worst_rival[x] = max(others, key=lambda name: others[name])
        ratios[x] = quotient(mean, others[worst_rival[x]])
    if not ratios:
        return NOTHING
    least_at = min(ratios, key=lambda x: ratios[x])
    said = (
        f"{span_of(ratios)} the best other "
        f"(least against {worst_rival[least_at]} at {short(least_at)})"
    )
    run_by_others = {x for name in among for x in lines.line(name)}.difference(except_at)
    refused = [x for x in lines.refused.get(series, ()) if x in run_by_others]
    if refused:
        said += f"; it cannot run at {', '.join(short(x) for x in refused)}, where others do"
    holds = not refused and _never_behind(ratios, within)
    return Finding(holds, said, {"ratio_to_best_other": keyed(ratios)})


def _never_behind(ratios: Mapping[Any, float], within: float) -> bool:
    """Everywhere as high, somewhere higher: two lines that are the same are not ahead."""
    return min(ratios.values()) >= 1.0 - within and max(ratios.values()) > 1.0 + within


def ahead(
    lines: Lines,
    *,
    series: str,
    of: str,
    by: float = 1.0,
    within: float = SAME,
    first: float = -inf,
) -> Finding:
    """The series is at least `by` times the other at every x, or every x from `first` on.

    Left to itself, `by` is 1: as high everywhere, and somewhere higher.
    """
    ratios = lines.ratios(series, of)
    if first > -inf:
        ratios = {x: ratio for x, ratio in ratios.items() if x >= first}
    if not ratios:
        return NOTHING
    if by == 1.0:
        holds = _never_behind(ratios, within)
    else:
        holds = min(ratios.values()) >= by * (1.0 - within)
    return Finding(holds, f"{span_of(ratios)} {of}", {"ratio": keyed(ratios)})


def near(lines: Lines, *, series: str, of: str, within: float) -> Finding:
    """The series is within a share of the other at every x, above it or below."""
    ratios = lines.ratios(series, of)
    if not ratios:
        return NOTHING
    holds = 1.0 - within <= min(ratios.values()) and max(ratios.values()) <= 1.0 + within
    return Finding(holds, f"{span_of(ratios)} {of}", {"ratio": keyed(ratios)})


def best_from(
    lines: Lines, *, series: str, among: Sequence[str], first: float, within: float = SAME
) -> Finding:
    """The series is the highest of these at every x from `first` on, or as high."""
    early = [x for name in (series, *among) for x in lines.line(name) if x < first]
    return best(lines, series=series, among=among, except_at=early, within=within)


def behind_at(lines: Lines, *, series: str, of: str, at: Any, within: float = SAME) -> Finding:
    """The series is below the other at this x."""
    ratios = lines.ratios(series, of)
    if at not in ratios:
        return NOTHING
    said = f"{times(ratios[at])} {of} at {short(at)}"
    return Finding(ratios[at] < 1.0 - within, said, {"ratio": ratios[at]})


def gap_grows(lines: Lines, *, series: str, of: str, ratio: bool = False) -> Finding:
    """The series ends above the other, and further above it than at the first x.

    By difference, as a reader of a drawing sees it, and by more than a hundredth of where the
    series ends; with `ratio` by quotient.
    """
    shared = lines.shared(series, of)
    if len(shared) < 2:
        return NOTHING
    first, last = shared[0], shared[-1]
    a, b = lines.line(series), lines.line(of)
    ratios = lines.ratios(series, of)
    gaps = [ratios[x] if ratio else a[x] - b[x] for x in (first, last)]
    said = (
        f"the gap goes from {short(gaps[0])} at {short(first)} to {short(gaps[1])} at "
        f"{short(last)}; the ratio from {times(ratios[first])} to {times(ratios[last])}"
    )
    more = SAME * (gaps[0] if ratio else a[last])
    holds = gaps[1] - gaps[0] > more and a[last] > b[last]
    return Finding(holds, said, {"gaps": gaps, "ratio": keyed(ratios)})


def larger_gain(lines: Lines, *, series: tuple[str, str], than: tuple[str, str]) -> Finding:
    """[a, b] gains more than [c, d]: at every x a is above b, and by more than c is above d."""
    one, other = lines.ratios(*series), lines.ratios(*than)
    shared = [x for x in one if x in other]
    if not shared:
        return NOTHING
    holds = all(one[x] > (1.0 + SAME) * max(other[x], 1.0) for x in shared)
    said = f"{span_of(one)} against {span_of(other)}"
    return Finding(holds, said, {"gain": keyed(one), "than": keyed(other)})


def falls_slower(lines: Lines, *, series: str, than: str) -> Finding:
    """From the first x to the last the series keeps a larger share of its height."""
    shared = lines.shared(series, than)
    if len(shared) < 2:
        return NOTHING
    kept = [
        quotient(lines.line(name)[shared[-1]], lines.line(name)[shared[0]])
        for name in (series, than)
    ]
    said = (
        f"keeps {kept[0]:.1%} from {short(shared[0])} to {short(shared[-1])}, {than} {kept[1]:.1%}"
    )
    holds = kept[0] > (1.0 + SAME) * kept[1]
    return Finding(holds, said, {"kept": kept[0], "kept_by_other": kept[1]})


def most_at(
    lines: Lines, *, series: str, of: str, end: Literal["first", "last"], within: float = SAME
) -> Finding:
    """The gain over the other is largest at the first or the last x, and is one there."""
    ratios = lines.ratios(series, of)
    if len(ratios) < 2:
        return NOTHING
    order = list(ratios)
    wanted = order[0] if end == "first" else order[-1]
    top = max(ratios, key=lambda x: ratios[x])
    said = f"largest at {short(top)} ({times(ratios[top])})"
    if top != wanted:
        said += f"; at {short(wanted)} {times(ratios[wanted])}"
    holds = top == wanted and ratios[top] > 1.0 + within
    return Finding(holds, said, {"ratio": keyed(ratios)})


def loses_little(lines: Lines, *, series: str, of: str, at_most: float) -> Finding:
    """The series loses no more than this share against the other, at any x.

    Where it is behind at none, there is no loss to judge.
    """
    ratios = lines.ratios(series, of)
    if not ratios:
        return NOTHING
    losses = {x: 1.0 - ratio for x, ratio in ratios.items()}
    if max(losses.values()) <= 0.0:
        return Finding(None, f"{series} is nowhere behind {of}, so that there is no loss to judge")
    said = "loses " + ", ".join(f"{loss:.2%} at {short(x)}" for x, loss in losses.items())
    return Finding(max(losses.values()) <= at_most, said, {"loss": keyed(losses)})


def below_until(lines: Lines, *, series: str, others: Sequence[str], until: float) -> Finding:
    """The series is the lowest of all at every x below `until`, and at none beyond it."""
    ours, known = lines.line(series), [lines.line(name) for name in others]
    shared = [x for x in ours if all(x in line for line in known)]
    below, beyond = [x for x in shared if x < until], [x for x in shared if x > until]
    if not below or not beyond:
        return NOTHING
    lowest = [x for x in shared if all(ours[x] < line[x] for line in known)]
    holds = all(x in lowest for x in below) and not any(x in lowest for x in beyond)
    at = ", ".join(short(x) for x in lowest) or "nowhere"
    return Finding(holds, f"lowest at {at}", {"lowest_at": lowest})


def at_most_share(lines: Lines, *, series: str, of: str, share: float) -> Finding:
    """The series is at most this share of the other, at every x; with a share of 1, below it."""
    ratios = lines.ratios(series, of)
    if not ratios:
        return NOTHING
    most = share * (1.0 - SAME) if share == 1.0 else share
    return Finding(
        max(ratios.values()) <= most, f"{span_of(ratios)} {of}", {"ratio": keyed(ratios)}
    )


def losses_near(
    lines: Lines,
    *,
    series: str,
    of: str,
    at: Sequence[Any],
    wanted: Sequence[float],
    within: float,
) -> Finding:
    """What the series loses against the other at these x, each to within an absolute share."""
    ratios = lines.ratios(series, of)
    if not all(x in ratios for x in at):
        return NOTHING
    losses = [1.0 - ratios[x] for x in at]
    said = ", ".join(
        f"{loss:.2%} for {claimed:.2%}" for loss, claimed in zip(losses, wanted, strict=True)
    )
    holds = all(abs(a - b) <= within for a, b in zip(losses, wanted, strict=True))
    return Finding(holds, said, {"losses": losses, "wanted": list(wanted)})
