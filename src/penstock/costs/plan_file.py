"""A plan as a file: what `penstock tune` writes and `enrich(plan=…)` takes."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from penstock.costs.choosing import Candidate, options_of
from penstock.costs.whole_files import require_target, write_asked
from penstock.errors import OptionError
from penstock.joins.names import named
from penstock.joins.plan import JoinPlan

_FORMAT = "penstock-plan"
_VERSION = 1


def plan_to_dict(
    name: str, plan: JoinPlan, found: Candidate | None = None, why: str = ""
) -> dict[str, Any]:
    """A plan, with what was predicted for it and why it was chosen, as plain values."""
    known = found.to_dict() if found is not None else {}
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "join": name,
        "options": {name: _plain(value) for name, value in options_of(plan).items()},
        "why": why,
        "predicted": {
            n.removeprefix("predicted_"): v for n, v in known.items() if n.startswith("predicted_")
        },
        "assumes": known.get("assumes"),
    }


def _plain(option: Any) -> Any:
    return option.total_seconds() if isinstance(option, timedelta) else option


def write_plan(
    path: str | os.PathLike[str],
    name: str,
    plan: JoinPlan,
    found: Candidate | None = None,
    why: str = "",
) -> None:
    """Write a plan to a file of JSON, as a whole or not at all."""
    require_plan_target(path)
    text = json.dumps(plan_to_dict(name, plan, found, why), indent=2)
    write_asked(Path(path), f"{text}\n", "plan")


def require_plan_target(path: str | os.PathLike[str]) -> None:
    """Raise where no plan can be written, or where something else would be lost."""
    require_target(Path(path), "plan", "plan", _is_plan)


def _is_plan(path: Path) -> bool:
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(known, dict) and known.get("format") == _FORMAT


def read_plan(path: str | os.PathLike[str]) -> JoinPlan:
    """The plan that a file holds; raises OptionError where it holds none."""
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"a plan file is given by its path, not by {path!r}.")
    try:
        known = json.loads(Path(path).read_text())
    except OSError as error:
        raise OptionError(f"the plan {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise OptionError(
            f"{path} is no plan: it is not JSON ({error}). `penstock tune MASTER --to {path}` "
            "writes one."
        ) from error
    if not isinstance(known, dict) or known.get("format") != _FORMAT:
        raise OptionError(
            f"{path} is no plan: its format is not {_FORMAT!r}. `penstock tune MASTER --to {path}` "
            "writes one."
        )
    if type(known.get("version")) is not int or known["version"] != _VERSION:
        raise OptionError(
            f"{path} has version {known.get('version')!r} of plans, and this Penstock reads "
            f"version {_VERSION}. Write it anew with `penstock tune`."
        )
    options = known.get("options")
    if not isinstance(options, dict):
        raise OptionError(f"{path} has no options; write it anew with `penstock tune`.")
    if "name" in options:
        raise OptionError(f"{path}: a plan has no option 'name'.")
    try:
        return named(str(known.get("join")), **options)
    except OptionError as error:
        raise type(error)(f"{path}: {error}") from error
