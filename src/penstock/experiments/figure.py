"""A figure as its data file says it: case, axes, series, panels, quantities, claims."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from penstock.budget import parse_bytes
from penstock.errors import did_you_mean
from penstock.experiments.case import Case, ExperimentError
from penstock.experiments.papers import PAPERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_BYTES = ("budget", "page_bytes", "read_bytes", "disk_buffer")
"""Fields and options that may be written as sizes."""
_CASE_FIELDS = frozenset(f.name for f in fields(Case)) - {"join", "options"}


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
        if not thin or len(chosen) <= 3:
            return chosen
        return self.thin_values or (chosen[0], chosen[len(chosen) // 2], chosen[-1])


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
        try:
            return read(path.stem, path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ExperimentError(f"cannot read {wanted}: {error.strerror}.") from error
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
        several = [i for i in ids if name == "all" or i.startswith((f"{name}-", name))]
        exact = [name] if name in ids or name.endswith(".toml") or not several else several
        for one in exact:
            chosen.setdefault(one, find(one))
    return list(chosen.values())


def read(name: str, text: str) -> Figure:
    """The figure that this text says, or an error that says where it is wrong."""
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{name}: not TOML: {error}.") from error
    return _Reader(name, said).figure()


class _Reader:
    """Takes a file apart; whatever it does not know is an error, not left out."""

    def __init__(self, name: str, said: dict[str, Any]) -> None:
        self._name, self._said = name, said

    def figure(self) -> Figure:
        said = dict(self._said)
        panels = tuple(self._panels(said.pop("panels", {})))
        series = tuple(self._series(said.pop("series", [])))
        figure = Figure(
            id=self._name,
            paper=self._one_of(said.pop("paper", None), PAPERS, "paper"),
            figure=str(said.pop("figure", "")),
            title=str(said.pop("title", self._name)),
            kind=said.pop("kind", "joins"),
            note=" ".join(str(said.pop("note", "")).split()),
            case=self._fields(said.pop("case", {})),
            small=self._fields(said.pop("small", {})),
            x=self._axis(said.pop("x", None)),
            y=self._axis(said.pop("y", None)),
            panels=panels or (("", None, ""),),
            series=series,
            quantities=tuple(said.pop("quantities", ())),
            claims=tuple(self._claim(c) for c in said.pop("claims", [])),
            clocks=tuple(said.pop("clocks", ("counted", "measured"))),
        )
        self._nothing_left(said, "the file")
        return figure

    def _fields(self, said: dict[str, Any]) -> dict[str, Any]:
        for name in said:
            self._one_of(name, [*_CASE_FIELDS], "field of the case")
        return {name: sized(name, value) for name, value in said.items()}

    def _axis(self, said: dict[str, Any] | None) -> Axis | None:
        if said is None:
            return None
        said = dict(said)
        name = str(said.pop("field", ""))
        if name and not name.startswith("options."):
            self._one_of(name, [*_CASE_FIELDS], "field of the case")
        axis = Axis(
            field=name,
            label=str(said.pop("label", name)),
            values=self._values(name, said.pop("values", ())),
            log=bool(said.pop("log", False)),
            small_values=self._values(name, said.pop("small_values", ())),
            thin_values=self._values(name, said.pop("thin_values", ())),
        )
        self._nothing_left(said, "an axis")
        return axis

    @staticmethod
    def _values(name: str, values: Any) -> tuple[Any, ...]:
        return tuple(sized(name, value) for value in values)

    def _panels(self, said: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
        """(field, value, label) of each."""
        if not said:
            return
        said = dict(said)
        name = self._one_of(said.pop("field", None), [*_CASE_FIELDS], "field of the case")
        labels = said.pop("labels", {})
        for value in said.pop("values", ()):
            label = labels.get(str(value), _PANEL_LABELS.get(value, f"{name} {value}"))
            yield name, sized(name, value), label
        self._nothing_left(said, "the panels")

    def _series(self, said: list[dict[str, Any]]) -> Iterator[Series]:
        names = set()
        for one in map(dict, said):
            join = str(one.pop("join", ""))
            options, small = (
                {n: sized(n, v) for n, v in one.pop(which, {}).items()}
                for which in ("options", "small_options")
            )
            series = Series(
                name=str(one.pop("name", join)),
                label=str(one.pop("label", "")),
                join=join,
                options=options,
                small_options=small,
                flat=bool(one.pop("flat", False)),
                case=self._fields(one.pop("case", {})),
                small_case=self._fields(one.pop("small_case", {})),
                of=one.pop("of", None),
                derived=one.pop("derived", None),
            )
            self._nothing_left(one, f"the series {series.name!r}")
            if not series.name or series.name in names:
                raise ExperimentError(f"{self._name}: two series are named {series.name!r}.")
            names.add(series.name)
            yield series

    def _claim(self, said: dict[str, Any]) -> Claim:
        said = dict(said)
        text, check = said.pop("text", None), said.pop("check", None)
        if not text or not check:
            raise ExperimentError(f"{self._name}: a claim has a text and a check.")
        return Claim(" ".join(text.split()), check, said)

    def _one_of(self, name: Any, known: Any, what: str) -> Any:
        if name not in known:
            raise ExperimentError(
                f"{self._name}: {name!r} is no {what}; they are {', '.join(sorted(known))}."
            )
        return name

    def _nothing_left(self, said: Mapping[str, Any], where: str) -> None:
        if said:
            raise ExperimentError(f"{self._name}: {where} has {', '.join(said)}, which is unknown.")


_PANEL_LABELS = {"by-frequency": "R sorted by frequency", "unsorted": "R unsorted"}


def sized(name: str, value: Any) -> Any:
    """A field's value; sizes are written as text."""
    if name.removeprefix("options.") in _BYTES and isinstance(value, str) and value[0].isdigit():
        return parse_bytes(value)
    return value
