"""A whole system to simulate, as a JSON file has it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dspark.cli.simulate.candidates_model import CandidatesModel
from dspark.cli.simulate.json_fields import from_json, read_json
from dspark.cli.simulate.processor import SchedulerModel
from dspark.cli.simulate.verifier_model import VerifierModel


@dataclass(frozen=True, slots=True)
class System:
    """Every worker is a ``verifier`` with a ``candidates`` service of its own, or none."""

    verifier: VerifierModel
    scheduler: SchedulerModel = field(default_factory=SchedulerModel)
    candidates: CandidatesModel | None = None
    description: str = ""


def read_system(path: Path, flag: str = "--system") -> System:
    """Raises CliError that names the flag, the file and the field that is wrong."""
    return from_json(System, read_json(path, flag), f"{flag} {path}: system")


def system_to_json(system: System) -> dict[str, Any]:
    """What ``read_system`` reads; named tuples become objects."""
    found = _plain(system)
    assert isinstance(found, dict)
    return found


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            each.name: _plain(inner)
            for each in dataclasses.fields(value)
            if (inner := getattr(value, each.name)) is not None
        }
    if hasattr(value, "_asdict"):
        return {name: _plain(inner) for name, inner in value._asdict().items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value
