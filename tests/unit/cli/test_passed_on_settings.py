"""Every flag of ``dspark serve`` that is a service's setting reaches the service."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from dspark.argument_parser import ArgumentParser
from dspark.cli.models.prepare import PreparedModel
from dspark.cli.serve_config import ServeConfig
from dspark.cli.service_settings import SERVICES, service_of
from dspark.cli.supervision.spec import Addresses, service_specs
from dspark.config import add_arguments, from_namespace, to_arguments

ADDRESSES = Addresses(http="127.0.0.1:8000", grpc="127.0.0.1:50051")
# Where a value that is made up from the type would be refused.
VALUES: dict[str, Any] = {
    "sources": ("suffix",),
    "corpus": ("a=file",),
    "device": "cpu",
    "early_pruning": "off",
    "min_gain": 0.5,
}


def other_value(field: dataclasses.Field[Any], own: dataclasses.Field[Any]) -> Any:
    """A value that is not the service's default."""
    hint = get_type_hints(ServeConfig)[field.name]
    default: Any = own.default
    if field.name in VALUES:
        return VALUES[field.name]
    if choices := field.metadata.get("choices"):
        return next(each for each in choices if each != default)
    if hint == bool | None:
        return not default
    if hint == int | None:
        return default + 1
    return default / 2 + 0.01 if hint == float | None else "x"


@pytest.fixture
def model(tmp_path: Path) -> PreparedModel:
    (tmp_path / "config.json").write_text("{}")
    return PreparedModel("name", tmp_path)


@pytest.mark.parametrize(
    "field",
    [each for each in dataclasses.fields(ServeConfig) if service_of(each)],
    ids=lambda field: field.name,
)
def test_a_flag_reaches_its_service(
    field: dataclasses.Field[Any], model: PreparedModel, tmp_path: Path
) -> None:
    (name,) = [name for name, service in SERVICES.items() if service is service_of(field)]
    own = next(each for each in dataclasses.fields(SERVICES[name]) if each.name == field.name)
    value = other_value(field, own)
    assert value != own.default

    parser = ArgumentParser()
    add_arguments(parser, ServeConfig)
    argument = to_arguments(dataclasses.replace(ServeConfig(), **{field.name: value}))
    config = from_namespace(ServeConfig, parser.parse_args(argument), {})
    specs = service_specs(config, model, ADDRESSES, tmp_path)

    spec = next(each for each in specs if each.name == name)
    child = ArgumentParser()
    add_arguments(child, SERVICES[name])
    read = from_namespace(SERVICES[name], child.parse_args(spec.arguments), spec.environment)
    assert getattr(read, field.name) == value
