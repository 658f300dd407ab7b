"""Results as a JSON file for ``--json OUT``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from dspark.cli.failure import CliError

_USAGE = 2


def check_writable(path: Path) -> None:
    """Raises CliError, before minutes of work, if results cannot be written there."""
    existed = path.exists()
    try:
        path.open("a").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error


def write_json(path: Path, results: dict[str, Any]) -> None:
    """Write the results; a number that is infinite or none becomes null. Raises CliError."""
    try:
        path.write_text(json.dumps(_finite(results), indent=2, allow_nan=False) + "\n")
    except OSError as error:
        raise _unwritable(path, error) from error


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _unwritable(path: Path, error: OSError) -> CliError:
    return CliError(f"--json {path}: {error.strerror}", _USAGE)
