"""Settings from frozen dataclasses: one place for each default, flag and environment variable.

A field ``redis_url`` of a config becomes the flag ``--redis-url`` and the variable
``DSPARK_REDIS_URL``; the flag wins. A value that does not parse is an error, never silently the
default.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, get_type_hints

Config = TypeVar("Config")
_USAGE = 2


class SettingError(Exception):
    """A setting that is missing or cannot be; the message names its flag or variable."""


def setting(default: Any, text: str, **metadata: Any) -> Any:
    """A field with a default and a help text; ``choices`` limits its values."""
    return dataclasses.field(default=default, metadata={"help": text, **metadata})


def with_default(text: str, default: Any) -> str:
    """The help text, with the default where there is one to show."""
    if default in (dataclasses.MISSING, None, "", ()):
        return text
    shown = ",".join(default) if isinstance(default, tuple) else str(default)
    return f"{text} (default {shown.replace('%', '%%')})"


def add_arguments(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, config_type: type[Any]
) -> None:
    """Add a flag for each field; ``metadata={"help": ...}`` and the default are its help text."""
    hints = get_type_hints(config_type)
    # What a config inherits, such as TransportSettings, is helped with after its own.
    for field in sorted(dataclasses.fields(config_type), key=lambda each: bool(each.kw_only)):
        flag = "--" + field.name.replace("_", "-")
        options: dict[str, Any] = {"help": _help_of(field), "dest": field.name}
        if "choices" in field.metadata:
            options["choices"] = field.metadata["choices"]
        if hints[field.name] is bool:
            options["action"] = argparse.BooleanOptionalAction
        else:
            options["type"] = _parser_of(hints[field.name])
        parser.add_argument(flag, default=argparse.SUPPRESS, **options)


def from_namespace(
    config_type: type[Config],
    namespace: argparse.Namespace,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Build the config: flag, else environment, else the field's default.

    Raises SettingError when a value does not parse, does not fit or is missing.
    """
    environ = os.environ if environ is None else environ
    hints = get_type_hints(config_type)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(config_type):  # type: ignore[arg-type]
        variable = "DSPARK_" + field.name.upper()
        if hasattr(namespace, field.name):
            values[field.name] = getattr(namespace, field.name)
        elif variable in environ:
            values[field.name] = _parse_variable(
                variable,
                environ[variable],
                hints[field.name],
                field.metadata.get("choices"),
            )
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise SettingError(f"--{field.name.replace('_', '-')} (or {variable}) is required")
    try:
        return config_type(**values)
    except ValueError as error:
        raise SettingError(f"bad setting: {error}") from error


def parse(config_type: type[Config], description: str, argv: Sequence[str] | None = None) -> Config:
    """Parse a whole command line into one config; a bad setting ends the process with 2."""
    parser = argparse.ArgumentParser(prog=_program(), description=description, allow_abbrev=False)
    add_arguments(parser, config_type)
    namespace = parser.parse_args(argv)
    try:
        return from_namespace(config_type, namespace)
    except SettingError as error:
        parser.exit(_USAGE, f"{parser.prog}: error: {error}\n")


def to_arguments(config: Any, given: Collection[str] = ()) -> list[str]:
    """The command line that makes an equal config in a child process.

    Defaults are left to the child, and so to its environment, but for fields that are ``given``.
    """
    arguments: list[str] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        flag = field.name.replace("_", "-")
        if value is None or (value == field.default and field.name not in given):
            continue
        if isinstance(value, bool):
            arguments.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            arguments.append(f"--{flag}={text}")
    return arguments


@contextmanager
def bad_settings_end(service: str) -> Iterator[None]:
    """Around the run of a service: a SettingError ends the process with one line and 2."""
    try:
        yield
    except SettingError as error:
        print(f"{service}: error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(_USAGE) from error


def _program() -> str | None:
    """What starts this process, if that is ``python -m``; None leaves it to argparse."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return f"python -m {spec.parent}" if spec is not None and spec.parent else None


def _help_of(field: dataclasses.Field[Any]) -> str | None:
    text = field.metadata.get("help")
    return None if text is None else with_default(text, field.default)


def _comma_separated(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _finite_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def _parser_of(hint: Any) -> Any:
    if hint == tuple[str, ...]:
        return _comma_separated
    if hint in (int, int | None):
        return int
    if hint in (float, float | None):
        return _finite_number
    return str


def _parse_variable(variable: str, text: str, hint: Any, choices: Collection[Any] | None) -> Any:
    if hint is bool:
        if text.lower() in ("1", "true", "yes", "on"):
            return True
        if text.lower() in ("0", "false", "no", "off"):
            return False
        raise SettingError(f"{variable}={text!r} is not a boolean (use true or false)")
    try:
        value = _parser_of(hint)(text)
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise SettingError(f"{variable}={text!r}: {error}") from error
    if choices is not None and value not in choices:
        raise SettingError(f"{variable}={text!r} is not one of {', '.join(map(str, choices))}")
    return value
