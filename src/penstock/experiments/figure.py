"""A figure as its data file says it: case, axes, series, panels, quantities, claims."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib.resources import files
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from penstock.budget import parse_bytes
from penstock.errors import PenstockError, did_you_mean
from penstock.experiments.allowed import (
    OF_VERDICTS,
    require_claim,
    require_field,
    require_options,
)
from penstock.experiments.case import WORKLOADS, Case, ExperimentError
from penstock.experiments.job import CLOCKS
from penstock.experiments.models import MODELS
from penstock.experiments.papers import PAPERS
from penstock.experiments.rivals import RIVALS
from penstock.experiments.shapes import CHECKS
from penstock.joins.names import NAMES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_BYTES = ("budget", "page_bytes", "read_bytes", "disk_buffer")
"""Fields and options that may be written as sizes."""
_CASE_FIELDS = frozenset(f.name for f in fields(Case)) - {"join", "options"}
_WORDS = {"order": ("unsorted", "by-frequency"), "workload": WORKLOADS}
"""Fields that are one of some words."""
_DERIVED = ("bound", *MODELS)
_NAMES_SERIES = ("series", "of", "than", "among", "others", "model")
"""Options of checks that name a series, or several."""
_MADE_BY_KIND = {"joins": (), "optima": ("best", "default")}
"""Series that a kind makes beside those of the file; other kinds name theirs themselves."""
_NEEDS_JOINS = ("joins", "optima", "arrivals")
"""Kinds whose series are runs of joins; the first two change a field along each axis."""


@dataclass(frozen=True)
class Axis:
    """What changes along an axis: a field of `Case`, or an option of the join (`options.NAME`)."""

    field: str
    label: str
    values: tuple[Any, ...]
    log: bool = False
    small_values: tuple[Any, ...] = ()
    thin_values: tuple[Any, ...] = ()

    def at(self, scale: str, *, thin: bool) -> tuple[Any, ...]:
        """The values to run: at small scale fewer where the file says so, thinned fewer still."""
        chosen = self.small_values if scale == "small" and self.small_values else self.values
        if not thin:
            return chosen
        if self.thin_values:
            return self.thin_values
        return chosen if len(chosen) <= 3 else (chosen[0], chosen[len(chosen) // 2], chosen[-1])


@dataclass(frozen=True)
class Series:
    """One line of a figure.

    Attributes:
        name: by which claims and results name it.
        label: in the legend.
        join: whose points it shows.
        options: of the join; small_options: others at small scale.
        case: fields of the case that are its own; small_case: others at small scale.
        flat: whether the axes' options are none of its join's: a line at one height.
        of: the series whose runs it is derived from; it then has none of its own.
        derived: what is derived: "bound", or a model's form.
    """

    name: str
    label: str
    join: str
    options: Mapping[str, Any] = field(default_factory=dict)
    small_options: Mapping[str, Any] = field(default_factory=dict)
    case: Mapping[str, Any] = field(default_factory=dict)
    small_case: Mapping[str, Any] = field(default_factory=dict)
    flat: bool = False
    of: str | None = None
    derived: str | None = None


@dataclass(frozen=True)
class Claim:
    """What a figure must show, and the check of `penstock.experiments.shapes` that looks."""

    text: str
    check: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A figure's file. `kind` says which module makes its rows; "joins" is a grid of runs."""

    id: str
    paper: str
    figure: str
    title: str
    kind: str
    note: str
    case: Mapping[str, Any]
    small: Mapping[str, Any]
    x: Axis | None
    y: Axis | None
    panels: tuple[tuple[str, Any, str], ...]
    series: tuple[Series, ...]
    quantities: tuple[str, ...]
    claims: tuple[Claim, ...]
    clocks: tuple[str, ...]

    def series_named(self, name: str) -> Series:
        for series in self.series:
            if series.name == name:
                return series
        raise ExperimentError(f"{self.id}: no series is named {name!r}.")


def known_ids() -> list[str]:
    """The ids of all figures that come with the package, in the order of the papers."""
    folder = files("penstock.experiments") / "figures"
    names = (entry.name for entry in folder.iterdir())
    ids = sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))
    return [i for i in ids if i[0].isdigit()] + [i for i in ids if not i[0].isdigit()]


def find(wanted: str) -> Figure:
    """The figure of this id, or of this file."""
    if wanted.endswith(".toml"):
        path = Path(wanted)
        if path.stem in known_ids():
            raise ExperimentError(
                f"{wanted} has the id of a figure that comes with penstock, {path.stem}; rename it."
            )
        try:
            path.stem.encode()
            return read(path.stem, path.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise ExperimentError(f"cannot read {wanted}: {error.strerror}.") from error
        except UnicodeError as error:
            raise ExperimentError(
                f"cannot read {wanted!a}: it, or its name, is not text in UTF-8."
            ) from error
    ids = known_ids()
    if wanted not in ids:
        raise ExperimentError(
            f"no figure has the id {wanted!r}.{did_you_mean(wanted, ids)} "
            "`penstock reproduce --list` shows all."
        )
    text = (files("penstock.experiments") / "figures" / f"{wanted}.toml").read_text("utf-8")
    return read(wanted, text)


def select(wanted: list[str]) -> list[Figure]:
    """The figures of these ids; "all" and beginnings ("000", "000-6") stand for several."""
    ids = known_ids()
    chosen: dict[str, Figure] = {}
    for name in wanted or ["all"]:
        several = [i for i in ids if name == "all" or (name and i.startswith(name))]
        exact = [name] if name in ids or name.endswith(".toml") or not several else several
        for one in exact:
            same = str(Path(one).resolve()) if one.endswith(".toml") else one
            chosen.setdefault(same, find(one))
    return list(chosen.values())


def read(name: str, text: str) -> Figure:
    """The figure that this text says, or an error that says where it is wrong."""
    try:
        said = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ExperimentError(f"{name}: not TOML: {error}.") from error
    return _Reader(name, said).figure()


class _Reader:
    """Takes a file apart; whatever it does not know is an error, not left out."""

    def __init__(self, name: str, said: dict[str, Any]) -> None:
        self._name, self._said = name, said

    def figure(self) -> Figure:
        said = dict(self._said)
        panels = tuple(self._panels(self._table(said, "panels")))
        series = tuple(self._series(self._tables(said, "series")))
        kind = str(said.pop("kind", "joins"))
        names = {one.name for one in series}.union(_MADE_BY_KIND.get(kind, ()))
        claims = tuple(
            self._claim(claim, panels, names if kind in _MADE_BY_KIND else set())
            for claim in self._tables(said, "claims")
        )
        figure = Figure(
            id=self._name,
            paper=self._one_of(said.pop("paper", None), PAPERS, "paper"),
            figure=str(said.pop("figure", "")),
            title=str(said.pop("title", self._name)),
            kind=kind,
            note=" ".join(str(said.pop("note", "")).split()),
            case=self._fields(self._table(said, "case")),
            small=self._fields(self._table(said, "small")),
            x=self._axis(said, "x"),
            y=self._axis(said, "y"),
            panels=panels or (("", None, ""),),
            series=series,
            quantities=tuple(map(str, self._listed(said, "quantities"))),
            claims=claims,
            clocks=tuple(
                self._one_of(clock, CLOCKS, "clock")
                for clock in self._listed(said, "clocks") or CLOCKS
            ),
        )
        self._nothing_left(said, "the file")
        self._require_whole(figure)
        return figure

    def _require_whole(self, figure: Figure) -> None:
        """Raise unless there is something to run, and somewhere to draw it."""
        axes = [axis for axis in (figure.x, figure.y) if axis is not None]
        if figure.x is None:
            raise ExperimentError(f"{self._name}: it has no x axis, [x].")
        if figure.kind not in _NEEDS_JOINS:
            return
        for axis in axes:
            if not axis.values or (not axis.field and figure.kind != "arrivals"):
                raise ExperimentError(f"{self._name}: an axis has a field and values, [...].")
            if len(set(map(repr, axis.values))) < len(axis.values):
                raise ExperimentError(f"{self._name}: {axis.label} has a value twice.")
        of_joins = [a.field.removeprefix("options.") for a in axes if "options." in a.field]
        for series in figure.series:
            if series.derived is None and not series.join:
                raise ExperimentError(f"{self._name}: the series {series.name!r} has no join.")
            of_axes = [] if series.flat else of_joins
            with self._in_file():
                require_options(series.join, [*series.options, *series.small_options, *of_axes])

    @contextmanager
    def _in_file(self) -> Iterator[None]:
        """What is wrong here is wrong in this file."""
        try:
            yield
        except PenstockError as error:
            raise ExperimentError(f"{self._name}: {error}") from error

    def _fields(self, said: dict[str, Any]) -> dict[str, Any]:
        for name in said:
            self._one_of(name, [*_CASE_FIELDS], "field of the case")
        return {name: self._value(name, value) for name, value in said.items()}

    def _value(self, name: str, value: Any) -> Any:
        """A field's value, or one at an axis, if it is of the field's kind."""
        if name in _WORDS:
            return self._one_of(value, _WORDS[name], name)
        with self._in_file():
            found = sized(name, value)
            if name in _CASE_FIELDS:
                require_field(name, found)
        if isinstance(found, list | dict) and name not in _CASE_FIELDS:
            raise ExperimentError(f"{self._name}: {name or 'an axis'} has a value {found!r}.")
        return found

    def _table(self, said: dict[str, Any], name: str) -> dict[str, Any]:
        """A part of the file that is a table; empty where it has none."""
        found = said.pop(name, {})
        if not isinstance(found, dict):
            raise ExperimentError(f"{self._name}: {name} is a table, [{name}], not {found!r}.")
        return dict(found)

    def _tables(self, said: dict[str, Any], name: str) -> list[dict[str, Any]]:
        """A part of the file that is there once for each of several."""
        found = said.pop(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise ExperimentError(f"{self._name}: {name} are tables, each headed [[{name}]].")
        return [dict(one) for one in found]

    def _listed(self, said: dict[str, Any], name: str) -> list[Any]:
        found = said.pop(name, [])
        if not isinstance(found, list):
            raise ExperimentError(f"{self._name}: {name} are a list, [...], not {found!r}.")
        return found

    def _axis(self, whole: dict[str, Any], axis_name: str) -> Axis | None:
        if axis_name not in whole:
            return None
        said = self._table(whole, axis_name)
        name = str(said.pop("field", ""))
        if name and not name.startswith("options."):
            self._one_of(name, [*_CASE_FIELDS], "field of the case")
        axis = Axis(
            field=name,
            label=str(said.pop("label", name)),
            values=self._values(name, said, "values"),
            log=bool(said.pop("log", False)),
            small_values=self._values(name, said, "small_values"),
            thin_values=self._values(name, said, "thin_values"),
        )
        self._nothing_left(said, "an axis")
        return axis

    def _values(self, name: str, said: dict[str, Any], which: str) -> tuple[Any, ...]:
        return tuple(self._value(name, value) for value in self._listed(said, which))

    def _panels(self, said: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
        """(field, value, label) of each."""
        if not said:
            return
        name = self._one_of(said.pop("field", None), [*_CASE_FIELDS], "field of the case")
        labels, shown = self._table(said, "labels"), set()
        for value in self._values(name, said, "values"):
            if value in shown:
                raise ExperimentError(f"{self._name}: two panels have {name} {value!r}.")
            shown.add(value)
            label = labels.get(str(value), _PANEL_LABELS.get(value, f"{name} {value}"))
            yield name, value, str(label)
        self._nothing_left(said, "the panels")

    def _series(self, said: list[dict[str, Any]]) -> Iterator[Series]:
        names: set[str] = set()
        for one in said:
            join = str(one.pop("join", ""))
            if join:
                self._one_of(join, [*NAMES, *RIVALS], "join")
            options, small = (
                {n: sized(n, v) for n, v in self._table(one, which).items()}
                for which in ("options", "small_options")
            )
            series = Series(
                name=str(one.pop("name", join)),
                label=str(one.pop("label", "")),
                join=join,
                options=options,
                small_options=small,
                flat=bool(one.pop("flat", False)),
                case=self._fields(self._table(one, "case")),
                small_case=self._fields(self._table(one, "small_case")),
                of=one.pop("of", None),
                derived=one.pop("derived", None),
            )
            self._nothing_left(one, f"the series {series.name!r}")
            if not series.name or series.name in names:
                raise ExperimentError(f"{self._name}: two series are named {series.name!r}.")
            if series.derived is not None or series.of is not None:
                self._one_of(series.derived, _DERIVED, "way to derive a series")
                self._one_of(series.of, names, "series before the one that is derived from it")
            names.add(series.name)
            yield series

    def _claim(
        self, said: dict[str, Any], panels: tuple[tuple[str, Any, str], ...], series: set[str]
    ) -> Claim:
        text, check = said.pop("text", None), str(said.pop("check", ""))
        if not text or not check:
            raise ExperimentError(f"{self._name}: a claim has a text and a check.")
        self._one_of(check, CHECKS, "check")
        known = [p for p in signature(CHECKS[check]).parameters.values() if p.name != "lines"]
        for name in said:
            self._one_of(name, {*OF_VERDICTS, *(p.name for p in known)}, f"option of {check}")
        lacking = [p.name for p in known if p.default is Parameter.empty and p.name not in said]
        if lacking:
            raise ExperimentError(f"{self._name}: {check} needs {', '.join(lacking)} (“{text}”).")
        with self._in_file():
            require_claim(check, said)
        for option in _NAMES_SERIES:
            named = said.get(option, [])
            for name in named if isinstance(named, list) else [named]:
                if series:
                    self._one_of(name, series, "series of this figure")
        for panel in said.get("panels", ()):
            self._one_of(str(panel), [str(value) for _, value, _ in panels], "panel")
        return Claim(" ".join(str(text).split()), check, said)

    def _one_of(self, name: Any, known: Any, what: str) -> Any:
        if name not in list(known):
            there = f"they are {', '.join(sorted(known))}" if known else "there is none"
            raise ExperimentError(f"{self._name}: {name!r} is no {what}; {there}.")
        return name

    def _nothing_left(self, said: Mapping[str, Any], where: str) -> None:
        if said:
            raise ExperimentError(f"{self._name}: {where} has {', '.join(said)}, which is unknown.")


_PANEL_LABELS = {"by-frequency": "R sorted by frequency", "unsorted": "R unsorted"}


def sized(name: str, value: Any) -> Any:
    """A field's value; sizes are written as text, and of a disk buffer "tuned" may be said."""
    field_name = name.removeprefix("options.")
    if field_name not in _BYTES or not isinstance(value, str):
        return value
    if field_name == "disk_buffer" and not value[:1].isdigit():
        return value
    return parse_bytes(value)
