"""What the tables of `docs/benchmarks` show: each cell is a value of a point of a figure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

Cell = dict[str, Any]
"""Where a number is: figure, panel, series, x (as at paper scale), value; its form; `over` what."""


class Table(NamedTuple):
    """A cell has what is shared, what its column says, and what its line says."""

    corner: str
    columns: list[tuple[str, Cell]]
    lines: list[tuple[str, Cell]]
    shared: Cell


ROOTJOIN = ("ROOTJOIN", "rootjoin")
LARGE_READS = ("ROOTJOIN, 512 KiB at once", "rootjoin-large-reads")
TUNED_X = ("Tuned X-HYBRIDJOIN", "tuned-x-hybridjoin")
OPTIMISED_X = ("Optimised X-HYBRIDJOIN", "optimised-x-hybridjoin")
X = ("X-HYBRIDJOIN", "x-hybridjoin")
MESHJOIN = ("MESHJOIN", "meshjoin")
HYBRIDJOIN = ("HYBRIDJOIN", "hybridjoin")
PQ = ("HYBRIDJOIN-PQ", "hybridjoin-pq")
CACHEJOIN = ("CACHEJOIN", "cachejoin")
INLJ = ("INLJ", "inlj")
BOUND = ("read bound behind ROOTJOIN's cache", "read-bound")
READS = "stream_rows_per_read"
RATE = "rows_per_second"


def _along(values: Iterable[Any], say: Any = "{:g}".format, **rest: Any) -> list[tuple[str, Cell]]:
    """A column for each x."""
    return [(say(x), {"x": x, **rest}) for x in values]


def _of(*names: tuple[str, str], **rest: Any) -> list[tuple[str, Cell]]:
    """A line for each series."""
    return [(label, {"series": series, **rest}) for label, series in names]


def _reads_of(*names: tuple[str, str]) -> list[tuple[str, Cell]]:
    """A line for each series, of rows per page read, below lines of rates."""
    counts = {"value": READS, "form": "count"}
    first, *rest = _of(*names, **counts)
    return [(f"rows per page read: {first[0]}", first[1]), *((f"… {n}", c) for n, c in rest)]


def _waits_of(label: str, series: str) -> list[tuple[str, Cell]]:
    """What does not wait, and how long the rest does, below lines of rates."""
    return [
        (
            f"answered on arrival: {label}",
            {"series": series, "value": "hit_share", "form": "share"},
        ),
        (
            f"99 % of {label}'s waiting rows wait at most, stream rows",
            {"series": series, "value": "wait_rows_p99", "form": "rate"},
        ),
    ]


def _megabytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:g} MB"


def _millions(rows: int) -> str:
    return f"{rows / 1e6:g} M rows"


BUDGETS = _along((50_000_000, 100_000_000, 150_000_000, 200_000_000, 250_000_000), _megabytes)
UNSORTED = {"panel": "unsorted"}
AT_50_MB = {"x": 50_000_000}
BY_ORDER = [
    ("R sorted by frequency", {"panel": "by-frequency"}),
    ("R unsorted", {"panel": "unsorted"}),
]
ALL_OF_R = (
    ("all of R in memory: Arrow, gather by dense keys", "arrow-in-memory"),
    ("all of R in memory: Polars, batch by batch", "polars"),
    ("all of R in memory: DuckDB, batch by batch", "duckdb"),
)

TABLES = {
    "memory-rates": Table(
        "R unsorted, rows/s",
        BUDGETS,
        [
            *_of(ROOTJOIN, LARGE_READS, TUNED_X, X, HYBRIDJOIN, MESHJOIN),
            ("R-MESHJOIN", {"series": "r-meshjoin"}),
            *_reads_of(ROOTJOIN, BOUND, LARGE_READS, TUNED_X, HYBRIDJOIN),
            *_waits_of(*ROOTJOIN),
            *_waits_of(*HYBRIDJOIN)[1:],
        ],
        {"figure": "000-6b", **UNSORTED, "value": RATE, "form": "rate"},
    ),
    "memory-rivals": Table(
        "R unsorted, rows/s",
        [
            *_along((12_500_000, 25_000_000, 50_000_000, 100_000_000), _megabytes),
            ("held at 50 MB", {**AT_50_MB, "value": "held_bytes_max", "form": "bytes"}),
        ],
        _of(
            ROOTJOIN,
            ("look-ups with an LRU cache, over pages of 8 KiB", "lru-pages"),
            ("look-ups with an LRU cache, over ROOTJOIN's pages", "lru-same-pages"),
            ("look-ups with an LRU cache, over SQLite", "lru-sqlite"),
            *ALL_OF_R,
        ),
        {"figure": "ours-rivals", **UNSORTED, "value": RATE, "form": "rate"},
    ),
    "skew-rates": Table(
        "R unsorted, rows/s",
        _along((0.0, 0.25, 0.5, 0.75, 1.0)),
        _of(ROOTJOIN, LARGE_READS, HYBRIDJOIN, MESHJOIN, INLJ),
        {"figure": "004-7e", **UNSORTED, "value": RATE, "form": "rate"},
    ),
    "skew-reads": Table(
        "R unsorted, stream rows per page read",
        _along((0.0, 0.5, 1.0, 1.25, 1.5)),
        _of(ROOTJOIN, CACHEJOIN, PQ, HYBRIDJOIN, OPTIMISED_X, TUNED_X, MESHJOIN, BOUND),
        {"figure": "ours-skew", **UNSORTED, "value": READS},
    ),
    "skew-drift": Table(
        "R unsorted, stream rows per page read, hot keys change every … rows",
        [
            *_along((2_000_000, 4_000_000, 8_000_000), lambda _: "{x}"),
            ("never", {"figure": "ours-skew", "x": 1.0}),
        ],
        _of(ROOTJOIN, CACHEJOIN, PQ, HYBRIDJOIN),
        {"figure": "ours-drift", **UNSORTED, "value": READS},
    ),
    "size-rates": Table(
        "R unsorted, rows/s",
        _along((500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000), _millions),
        [
            *_of(ROOTJOIN, LARGE_READS, TUNED_X, X, HYBRIDJOIN, MESHJOIN),
            (OPTIMISED_X[0], {"series": OPTIMISED_X[1], "figure": "003-6a"}),
            *_reads_of(ROOTJOIN, BOUND, HYBRIDJOIN),
            *_waits_of(*ROOTJOIN),
        ],
        {"figure": "000-6a", **UNSORTED, "value": RATE, "form": "rate"},
    ),
    "size-20m": Table(
        "20 M rows (2.4 GB), 50 MB",
        [
            ("rows/s, unsorted", {"panel": "unsorted", "value": RATE, "form": "rate"}),
            (
                "rows/s, sorted by frequency",
                {"panel": "by-frequency", "value": RATE, "form": "rate"},
            ),
            ("rows per page read, unsorted", {"panel": "unsorted", "value": READS}),
            ("rows per page read, sorted", {"panel": "by-frequency", "value": READS}),
        ],
        _of(ROOTJOIN, TUNED_X, OPTIMISED_X, HYBRIDJOIN, MESHJOIN, BOUND),
        {"figure": "ours-size", "x": 20_000_000},
    ),
    "size-200m": Table(
        "skew",
        [
            ("ROOTJOIN, rows/s", {"series": "rootjoin", "value": RATE, "form": "rate"}),
            ("HYBRIDJOIN, rows/s", {"series": "hybridjoin", "value": RATE, "form": "rate"}),
            ("rows per page read: ROOTJOIN", {"series": "rootjoin", "value": READS}),
            ("read bound behind its cache", {"series": "read-bound", "value": READS}),
            ("HYBRIDJOIN", {"series": "hybridjoin", "value": READS}),
            (
                "ROOTJOIN held at most",
                {"series": "rootjoin", "value": "held_bytes_max", "form": "bytes"},
            ),
        ],
        [(f"{skew:g}", {"x": skew}) for skew in (0.5, 1.0, 1.3)],
        {"figure": "ours-200m", **UNSORTED},
    ),
    "size-spark": Table(
        "milliseconds of a micro-batch of 20,000 rows, beyond an empty one",
        [
            ("2 M rows of R", {"x": 2_000_000}),
            ("20 M rows of R", {"x": 20_000_000}),
        ],
        [
            *_of(
                ("`enrich`, at once", "at-once"),
                ("`enrich`, waiting up to 30 s", "waiting"),
                ("Spark's stream–static left join", "static"),
                ("Spark's stream–static inner join", "static-inner"),
            ),
            (
                "waiting: rows left waiting, in micro-batches",
                {"series": "waiting", "value": "wait_share"},
            ),
            (
                "waiting: the longest wait, ms",
                {"series": "waiting", "value": "wait_ms_longest"},
            ),
        ],
        {"figure": "ours-spark", "panel": "", "value": "ms_beyond_floor", "form": "count"},
    ),
    "order-rates": Table(
        "50 MB, rows/s",
        [
            *BY_ORDER,
            ("left of it", {"panel": "unsorted", "over": {"panel": "by-frequency"}}),
        ],
        [
            (OPTIMISED_X[0], {"series": OPTIMISED_X[1], "figure": "003-6b"}),
            *_of(TUNED_X, X, HYBRIDJOIN, MESHJOIN, ROOTJOIN, LARGE_READS),
        ],
        {"figure": "000-6b", **AT_50_MB, "value": RATE, "form": "rate"},
    ),
    "order-reads": Table(
        "50 MB, stream rows per page read",
        BY_ORDER,
        [
            *_of(ROOTJOIN),
            (OPTIMISED_X[0], {"series": OPTIMISED_X[1], "figure": "003-6b"}),
            *_of(TUNED_X, X, HYBRIDJOIN, BOUND),
            ("read bound without a cache, in HYBRIDJOIN's window", {"series": "window-bound"}),
        ],
        {"figure": "000-6b", **AT_50_MB, "value": READS},
    ),
    "missing-reads": Table(
        "R unsorted, stream rows per page read",
        [
            ("none missing", {"x": 0.0}),
            ("10 %", {"x": 0.1}),
            ("50 %", {"x": 0.5}),
            ("share that remains at 50 %", {"x": 0.5, "over": {"x": 0.0}}),
        ],
        _of(
            ROOTJOIN,
            CACHEJOIN,
            PQ,
            HYBRIDJOIN,
            OPTIMISED_X,
            TUNED_X,
            MESHJOIN,
            (
                "look-ups with an LRU cache over the same pages, missing keys remembered",
                "lru-same-pages",
            ),
            BOUND,
        ),
        {"figure": "ours-missing", **UNSORTED, "value": READS},
    ),
    "arrival-waits": Table(
        "R unsorted, mean seconds from arrival to answer",
        _along((100, 125, 150, 250, 500, 2000), lambda rate: f"{rate:,} rows/s"),
        _of(
            ("ROOTJOIN, single pages", "rootjoin"),
            ("ROOTJOIN, reads as large as HYBRIDJOIN's", "rootjoin-large-reads"),
            INLJ,
            HYBRIDJOIN,
            MESHJOIN,
        ),
        {"figure": "004-7b", **UNSORTED, "value": "wait_seconds_mean", "form": "seconds"},
    ),
    "arrival-max-wait": Table(
        "R unsorted; `max_wait`, stream rows",
        [
            ("ROOTJOIN, rows per page read", {"series": "rootjoin", "value": READS}),
            ("wait, 99 % of the rows that wait", {"series": "rootjoin", "value": "wait_rows_p99"}),
            ("CACHEJOIN", {"series": "cachejoin", "value": READS}),
            ("HYBRIDJOIN", {"series": "hybridjoin", "value": READS}),
        ],
        _along((1_000_000, 4_000_000, 32_000_000), lambda _: "{x}"),
        {"figure": "ours-wait", **UNSORTED},
    ),
}
