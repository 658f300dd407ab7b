"""OTEL_* variables: what turns traces on, and what is refused."""

from __future__ import annotations

import pytest

from dspark.config import SettingError
from dspark.telemetry.trace_settings import TraceSettings

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}


def settings(**variables: str) -> TraceSettings | None:
    return TraceSettings.of("scheduler", variables)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SERVICE_NAME": "x"},
        {"OTEL_TRACES_EXPORTER": "none", **ENDPOINT},
        {"OTEL_SDK_DISABLED": "TRUE", **ENDPOINT},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
    ],
)
def test_traces_are_off(variables: dict[str, str]) -> None:
    assert settings(**variables) is None


def test_an_endpoint_is_enough() -> None:
    found = settings(**ENDPOINT)
    assert found is not None
    assert (found.exporter, found.protocol) == ("otlp", "grpc")
    assert (found.endpoint, found.service_name) == ("http://collector:4317", "dspark-scheduler")
    assert not found.captures_content


def test_variables_for_traces_win() -> None:
    found = settings(
        **ENDPOINT,
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://other:4318/v1/traces",
        OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="http/protobuf",
    )
    assert found is not None
    assert (found.endpoint, found.protocol) == ("http://other:4318/v1/traces", "http/protobuf")


@pytest.mark.parametrize(
    "variables",
    [{"OTEL_SERVICE_NAME": "mine"}, {"OTEL_RESOURCE_ATTRIBUTES": "a=b,service.name=mine"}],
)
def test_a_name_that_is_given_is_left_to_opentelemetry(variables: dict[str, str]) -> None:
    found = settings(**ENDPOINT, **variables)
    assert found is not None
    assert found.service_name == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
        ("OTEL_TRACES_SAMPLER_ARG", "half"),
    ],
)
def test_a_value_that_means_nothing_is_refused_by_name(name: str, value: str) -> None:
    ratio = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}
    with pytest.raises(SettingError, match=name):
        settings(**{**ENDPOINT, **ratio, name: value})
