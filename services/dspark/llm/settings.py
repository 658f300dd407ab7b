"""Keyword arguments of an LLM to the settings of its services."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from dspark.cli.services_config import ServicesConfig
from dspark.config import SettingError, from_namespace

_FIELDS = {field.name: field for field in fields(ServicesConfig) if field.name != "model"}
_HINTS = get_type_hints(ServicesConfig)


def services_config(model: str, settings: Mapping[str, Any]) -> ServicesConfig:
    """What is not given has the value of its environment variable, else the services' default.

    Raises TypeError for an unknown setting, SettingError that names one with a bad value.
    """
    for name in settings:
        if name not in _FIELDS:
            raise TypeError(f"unknown setting {name!r} of LLM; known: {', '.join(_FIELDS)}")
    given = {name: _value(name, value) for name, value in settings.items() if value is not None}
    try:
        return from_namespace(ServicesConfig, argparse.Namespace(model=model, **given))
    except SettingError as error:
        raise SettingError(with_names(str(error))) from error


def with_names(problem: str) -> str:
    """The text with flags such as ``--max-model-len`` written as ``max_model_len``."""
    return re.sub(r"--([a-z][a-z-]*[a-z])", lambda flag: flag[1].replace("-", "_"), problem)


def _value(name: str, value: Any) -> Any:
    hint, choices = _HINTS[name], _FIELDS[name].metadata.get("choices")
    if hint == tuple[str, ...]:
        return _texts(name, value)
    # A bool is an int to isinstance.
    if not isinstance(value, hint) or isinstance(value, bool) is not (hint == bool | None):
        if not (hint == float | None and type(value) is int):
            raise SettingError(f"{name}={value!r} is no {_kind(hint)}")
    if choices is not None and value not in choices:
        raise SettingError(f"{name}={value!r} is not one of {', '.join(map(str, choices))}")
    return value


def _kind(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).removesuffix(" | None")


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise SettingError(f"{name}={value!r} is no list of texts")
    return tuple(value)
