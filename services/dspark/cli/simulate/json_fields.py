"""Frozen dataclasses from JSON: every field is checked, and errors name the one that is wrong."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from dspark.cli.failure import CliError
from dspark.cli.text_input import read_text

T = TypeVar("T")
_USAGE = 2


def read_json(path: Path, flag: str) -> Any:
    """The content of a file; raises CliError that names the flag and the file."""
    try:
        return json.loads(read_text(path, f"{flag} {path}"))
    except (ValueError, RecursionError) as error:
        raise CliError(f"{flag} {path}: {error}", _USAGE) from error


def from_json(kind: type[T], data: Any, where: str) -> T:
    """An instance of a dataclass or named tuple; raises CliError that begins with ``where``."""
    value = _value(kind, data, where)
    return typing.cast(T, value)


def _value(hint: Any, data: Any, where: str) -> Any:
    if get_origin(hint) is types.UnionType:
        return None if data is None else _value(get_args(hint)[0], data, where)
    if get_origin(hint) is tuple:
        if not isinstance(data, list):
            raise _error(where, "must be a list")
        inner = get_args(hint)[0]
        return tuple(_value(inner, each, f"{where}[{i}]") for i, each in enumerate(data))
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return _object(hint, data, where)
    return _scalar(hint, data, where)


def _object(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _error(where, "must be an object")
    hints = get_type_hints(kind)
    if unknown := sorted(set(data) - set(hints)):
        raise _error(where, f"has no field {unknown[0]!r} (there are: {', '.join(hints)})")
    values = {name: _value(hints[name], each, f"{where}.{name}") for name, each in data.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise _error(where, f"lacks a field: {error}") from error
    except ValueError as error:
        raise _error(where, str(error)) from error


def _scalar(hint: Any, data: Any, where: str) -> Any:
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        data = float(data)
    if not isinstance(data, hint) or (hint is not bool and isinstance(data, bool)):
        raise _error(where, f"must be of type {hint.__name__}, not {data!r}")
    if isinstance(data, float) and not math.isfinite(data):
        raise _error(where, "must be a finite number")
    return data


def _error(where: str, problem: str) -> CliError:
    return CliError(f"{where} {problem}", _USAGE)
