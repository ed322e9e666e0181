"""The costs of this machine with this master, measured once and kept."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import pyarrow as pa

from penstock.budget import Size, format_bytes, parse_bytes
from penstock.costs.read_timing import Progress, read_curves
from penstock.costs.row_timing import RowCosts, row_costs
from penstock.costs.service_rate import HELD
from penstock.costs.unit_costs import CostError, ReadCurve, UnitCosts
from penstock.costs.whole_files import write_whole
from penstock.joins.binding import Binding, On
from penstock.masters.base import Master

_HYBRIDJOIN = {
    "take": 24.0,
    "probe": 0.0,
    "add": 33.0,
    "remove": 52.0,
    "emit": 16.0,
    "page": 244e3,
    "turn": 74e3,
    "piece": 200e3,
}
_CACHEJOIN = {
    "take": 10.0,
    "probe": 15.0,
    "add": 100.0,
    "remove": 66.0,
    "emit": 34.0,
    "page": 225e3,
    "turn": 53e3,
    "piece": 150e3,
    "learn": 118e3,
    "look": 106.0,
}
_ROOTJOIN = {
    "take": 20.0,
    "probe": 14.0,
    "add": 34.0,
    "remove": 77.0,
    "emit": 14.0,
    "page": 5e3,
    "turn": 450e3,
    "piece": 370e3,
    "choose": 320e3,
}
_HELD = {"take": 20.0, "probe": 0.0, "add": 0.0, "remove": 0.0, "emit": 54.0, "piece": 34e3}
NOMINAL = UnitCosts(
    reads={
        1: ReadCurve((8_192.0, 65_536.0, 1_048_576.0), (87e-6, 109e-6, 262e-6)),
        16: ReadCurve((8_192.0, 65_536.0, 1_048_576.0), (25e-6, 50e-6, 200e-6)),
    },
    **_ROOTJOIN,
    kinds={
        "hybridjoin": {"choose": 0.0, **_HYBRIDJOIN},
        "cachejoin": {"choose": 0.0, **_CACHEJOIN},
        HELD: {"page": 0.0, "turn": 0.0, "choose": 0.0, **_HELD},
    },
    source="a local disk and two cores of 2025; calibrate to have yours",
)
"""What is taken where nothing was measured."""


def default_stream(master: Master) -> pa.Schema:
    """A stream for a master of which no stream is known: its key, and 12 bytes beside."""
    key = [pa.field(name, master.schema.field(name).type) for name in master.key]
    return pa.schema([*key, ("_quantity", pa.int32()), ("_at", pa.timestamp("us"))])


def calibrate(
    master: Master,
    stream_schema: pa.Schema | None = None,
    *,
    on: On | None = None,
    columns: Sequence[str] | None = None,
    budget: Size = "50MB",
    progress: Progress = lambda _: None,
) -> UnitCosts:
    """Measure what reads of this master cost, and rows of such a stream; takes ten seconds or so.

    Args:
        master: an open master; some hundred of its pages are read.
        stream_schema: the stream's columns; if left out, the key and 12 bytes beside.
        on: as in `JoinPlan.build`; the master's key if left out.
        columns: the master's columns that are added; all but the key if left out.
        budget: that of the joins to be predicted; a sample of R of twice as many bytes is held.
        progress: is told what is measured next.
    """
    schema = default_stream(master) if stream_schema is None else stream_schema
    key = on if on is not None else list(master.key)
    if master.num_rows < 1:
        raise CostError("the master has no rows, so that there is nothing to measure.")
    binding = Binding.resolve(master, schema, key, "null", columns)
    curves = read_curves(master, binding.read_columns, progress=progress)
    rows = row_costs(master, schema, key, columns, parse_bytes(budget), progress)
    curves[1] = _between_work(curves[1], rows)
    size = format_bytes(rows.budget)
    source = f"measured on {platform.node() or 'this machine'}, at {size}"
    usual = rows.kinds.get("rootjoin") or rows.kinds["hybridjoin"]
    return UnitCosts(curves, **usual, kinds=rows.kinds, source=source)


def _between_work(alone: ReadCurve, rows: RowCosts) -> ReadCurve:
    """A read between other work takes longer than one that follows another."""
    longer = [seconds / max(alone.of(size), 1e-9) for size, seconds in rows.reads]
    return alone.times(max(median(longer), 1.0)) if longer else alone


def kept_calibration(
    master: Master, stream_schema: pa.Schema | None = None, columns: Sequence[str] | None = None
) -> UnitCosts | None:
    """What `keep_calibration` kept for this machine, master and stream; None if nothing was."""
    return _read(_path(master, stream_schema, columns))


def _read(path: Path) -> UnitCosts | None:
    try:
        return UnitCosts.from_dict(json.loads(path.read_text()))
    except OSError:
        return None
    except (ValueError, RecursionError):
        return None  # damaged, or written by another version: to be measured again


def keep_calibration(
    costs: UnitCosts,
    master: Master,
    stream_schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
) -> Path:
    """Keep costs for later; returns the file."""
    path = _path(master, stream_schema, columns)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(costs.to_dict(), indent=1))
    except OSError as error:
        raise CostError(
            f"the calibration cannot be kept in {path.parent}: {error.strerror}. "
            "Set PENSTOCK_CACHE to a folder that can be written and has room."
        ) from error
    return path


def at_any_rate(
    master: Master, stream_schema: pa.Schema | None = None, columns: Sequence[str] | None = None
) -> UnitCosts:
    """The kept calibration of this master, if need be with another stream, or nominal costs."""
    exact = kept_calibration(master, stream_schema, columns)
    if exact is not None:
        return exact
    folder, name = _folder(), _digest(_known_of(master))
    try:
        others = sorted(folder.glob(f"{name}-*.json"), key=lambda one: -one.stat().st_mtime)
    except OSError:
        others = []
    for other in others:
        costs = _read(other)
        if costs is not None:
            return replace(costs, source=f"{costs.source}, with a stream of other columns")
    return NOMINAL


def _path(master: Master, stream_schema: pa.Schema | None, columns: Sequence[str] | None) -> Path:
    schema = default_stream(master) if stream_schema is None else stream_schema
    stream = [
        str(schema.remove_metadata()),
        str(sorted(columns) if columns is not None else None),
    ]
    return _folder() / f"{_digest(_known_of(master))}-{_digest(stream)}.json"


def _known_of(master: Master) -> list[str]:
    """What tells this machine and this master from others."""
    return [
        platform.node(),
        platform.machine(),
        str(os.cpu_count()),
        type(master).__name__,
        _place(master),
        str(master.schema.remove_metadata()),
        str(round(master.data_nbytes / max(master.num_pages, 1), -3)),
    ]


def _digest(known: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(known).encode(), digest_size=8).hexdigest()


def _place(master: Master) -> str:
    """Files on one disk are read alike; of anything else the name counts, a table's too."""
    path = str(getattr(master, "path", getattr(master, "place", "")))
    try:
        return f"device {Path(path).stat().st_dev}" if path else ""
    except OSError:
        return path


def _folder() -> Path:
    cache = os.environ.get("PENSTOCK_CACHE")
    if cache:
        return Path(cache) / "calibrations"
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:  # who has no home
        folder = Path(tempfile.gettempdir())
    return folder / "penstock" / "calibrations"
