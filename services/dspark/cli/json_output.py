"""Results as a JSON file for ``--json OUT``, and for flags like it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from dspark.cli.failure import CliError

_USAGE = 2


def check_writable(path: Path, flag: str = "--json") -> None:
    """Raises CliError, before minutes of work, if results cannot be written there."""
    existed = path.exists()
    try:
        path.open("a").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error, flag) from error


def write_json(path: Path, results: dict[str, Any], flag: str = "--json") -> None:
    """Write the results; a number that is infinite or none becomes null. Raises CliError."""
    try:
        path.write_text(json.dumps(_finite(results), indent=2, allow_nan=False) + "\n")
    except OSError as error:
        raise _unwritable(path, error, flag) from error


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _unwritable(path: Path, error: OSError, flag: str) -> CliError:
    return CliError(f"{flag} {path}: {error.strerror}", _USAGE)
