"""Settings from frozen dataclasses: one place for each default, flag and environment variable.

A field ``redis_url`` of a config becomes the flag ``--redis-url`` and the variable
``DSPARK_REDIS_URL``; the flag wins. A value that does not parse is an error, never silently the
default. The end of a name is the unit of its value: ``_s``, ``_ms`` and ``_bytes``.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, get_type_hints

from dspark.argument_parser import ArgumentParser

Config = TypeVar("Config")
_USAGE = 2
_UNITS = {"_s": "seconds", "_ms": "ms", "_bytes": "bytes"}


class SettingError(Exception):
    """A setting that is missing or cannot be; the message names its flag or variable."""


def setting(default: Any, text: str, **metadata: Any) -> Any:
    """A field with a default and a help text.

    ``choices`` limits its values, ``group`` is the heading under which its flag stands, and
    ``aliases`` are further flags for it.
    """
    return dataclasses.field(default=default, metadata={"help": text, **metadata})


def flag_of(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a field."""
    return "DSPARK_" + name.upper()


def shown_value(name: str, value: Any) -> str:
    """A value as flags take it, with its unit; "" where there is none to show."""
    if value in (dataclasses.MISSING, None, "", ()):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    shown = ",".join(value) if isinstance(value, tuple) else str(value)
    shown = shown.removesuffix(".0") if isinstance(value, float) else shown
    return f"{shown} {_unit_of(name)}".rstrip()


def with_default(text: str, name: str, default: Any) -> str:
    """The help text of a field, with the default where there is one to show."""
    shown = shown_value(name, default)
    return f"{text} (default {shown})" if shown else text


def add_arguments(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, config_type: type[Any]
) -> None:
    """Add a flag for each field, under the heading of its group; see ``setting``."""
    hints = get_type_hints(config_type)
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    # What a config inherits, such as TransportSettings, is helped with after its own.
    for field in sorted(dataclasses.fields(config_type), key=lambda each: bool(each.kw_only)):
        title = field.metadata.get("group", "")
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        options: dict[str, Any] = {"help": _help_of(field), "dest": field.name}
        if "choices" in field.metadata:
            options["choices"] = field.metadata["choices"]
        if hints[field.name] in (bool, bool | None):
            options["action"] = argparse.BooleanOptionalAction
        else:
            options["type"] = _parser_of(hints[field.name])
            if "choices" not in options:
                options["metavar"] = _metavar(field.name, hints[field.name])
        flags = (flag_of(field.name), *field.metadata.get("aliases", ()))
        groups[title].add_argument(*flags, default=argparse.SUPPRESS, **options)


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
        variable = variable_of(field.name)
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
            raise SettingError(f"{flag_of(field.name)} (or {variable}) is required")
    try:
        return config_type(**values)
    except ValueError as error:
        raise SettingError(f"bad setting: {with_flag(str(error), config_type)}") from error


def with_flag(problem: str, config_type: type[Any]) -> str:
    """The problem, with the name of a field at its start written as the field's flag."""
    name = re.split(r"\W", problem, maxsplit=1)[0]
    if name not in {field.name for field in dataclasses.fields(config_type)}:
        return problem
    return flag_of(name) + problem.removeprefix(name)


def parse(config_type: type[Config], description: str, argv: Sequence[str] | None = None) -> Config:
    """Parse a whole command line into one config; a bad setting ends the process with 2."""
    parser = ArgumentParser(prog=_program(), description=description)
    add_arguments(parser, config_type)
    namespace = parser.parse_args(argv)
    try:
        return from_namespace(config_type, namespace)
    except SettingError as error:
        parser.error(str(error))


def to_arguments(config: Any, given: Collection[str] = ()) -> list[str]:
    """The command line that makes an equal config in a child process.

    Defaults are left to the child, and so to its environment, but for fields that are ``given``.
    """
    arguments: list[str] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        flag = flag_of(field.name)
        if value is None or (value == field.default and field.name not in given):
            continue
        if isinstance(value, bool):
            arguments.append(flag if value else f"--no-{flag.removeprefix('--')}")
        else:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            arguments.append(f"{flag}={text}")
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
    if text is None:
        return None
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        return f"{text} (required)".replace("%", "%%")
    return with_default(text, field.name, field.default).replace("%", "%%")


def _metavar(name: str, hint: Any) -> str:
    """What stands for a value in help texts: its unit or kind, else the name's last word."""
    if hint not in (int, int | None, float, float | None):
        return name.rpartition("_")[2].upper()
    unit = _unit_of(name)
    return unit.upper() if unit else "N" if hint in (int, int | None) else "X"


def _unit_of(name: str) -> str:
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")


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
    if hint in (bool, bool | None):
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
