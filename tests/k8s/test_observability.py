"""Prometheus finds every service, and the alerts are those of the repository."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import yaml

from dspark.gateway import engine_metrics
from dspark.telemetry.trace_settings import TraceSettings
from harness.kubernetes.environment import environment_of
from harness.kubernetes.rendering import (
    COMPONENTS,
    OVERLAYS,
    Rendered,
    main_container,
    pod_labels,
    render,
    selects,
)
from harness.repository import ROOT

SERVICES = ("gateway", "scheduler", "candidates", "verifier")
PRODUCTION = OVERLAYS / "production"
ALERTS = ROOT / "compose" / "observability" / "alerts.yml"


@pytest.fixture(scope="module")
def watched(composed: Callable[..., Rendered]) -> Rendered:
    return composed("observability")


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_is_scraped_once_where_it_has_metrics(watched: Rendered, service: str) -> None:
    workload = watched.named("Deployment", service)
    endpoints = [
        endpoint
        for monitor in watched.of_kind("PodMonitor")
        if selects(monitor["spec"]["selector"], pod_labels(workload))
        for endpoint in monitor["spec"]["podMetricsEndpoints"]
    ]
    [endpoint] = endpoints
    ports = {port["name"] for port in main_container(workload)["ports"]}
    assert endpoint["port"] in ports
    assert endpoint["port"] == ("http" if service == "gateway" else "metrics")


def test_metrics_of_the_gateway_are_asked_as_it_serves_them(
    composed: Callable[..., Rendered],
) -> None:
    plain = _gateway_endpoint(composed("observability"))
    assert "scheme" not in plain
    encrypted = _gateway_endpoint(composed("observability", "public-tls"))
    assert encrypted["scheme"] == _gateway_endpoint(render(PRODUCTION))["scheme"] == "https"


def _gateway_endpoint(rendered: Rendered) -> dict[str, object]:
    [endpoint] = rendered.named("PodMonitor", "gateway")["spec"]["podMetricsEndpoints"]
    assert isinstance(endpoint, dict)
    return endpoint


def test_the_alerts_are_those_of_compose(watched: Rendered) -> None:
    """After a change of alerts.yml: python k8s/components/observability/rule_of_alerts.py"""
    [rule] = watched.of_kind("PrometheusRule")
    assert rule["spec"]["groups"] == yaml.safe_load(ALERTS.read_text())["groups"]


@pytest.mark.parametrize("service", SERVICES)
def test_traces_name_their_pod(watched: Rendered, service: str) -> None:
    container = main_container(watched.named("Deployment", service))
    variables = environment_of(container, watched)
    settings = TraceSettings.of(service, variables)
    assert settings is not None
    assert settings.endpoint == "http://otel-collector.observability:4317"
    assert (settings.exporter, settings.protocol) == ("otlp", "grpc")
    assert variables["OTEL_RESOURCE_ATTRIBUTES"] == (
        "k8s.namespace.name=<metadata.namespace>,k8s.pod.name=<metadata.name>,"
        "service.instance.id=<metadata.name>"
    )


@pytest.mark.parametrize("service", SERVICES)
def test_without_the_component_nothing_is_traced(
    composed: Callable[..., Rendered], service: str
) -> None:
    rendered = composed("replicas")
    container = main_container(rendered.named("Deployment", service))
    assert TraceSettings.of(service, environment_of(container, rendered)) is None


def test_autoscalers_ask_for_metrics_that_the_adapter_serves(
    composed: Callable[..., Rendered],
) -> None:
    values = yaml.safe_load((COMPONENTS / "hpa" / "prometheus-adapter-values.yaml").read_text())
    served = {rule["name"]["as"]: rule["seriesQuery"] for rule in values["rules"]["external"]}
    scaler = composed("hpa").named("HorizontalPodAutoscaler", "verifier")
    asked = {m["external"]["metric"]["name"] for m in scaler["spec"]["metrics"]}
    assert asked == served.keys()
    known = {family.name for family in engine_metrics.FAMILIES}
    for name, query in served.items():
        [series] = re.findall(r'__name__="([^"]+)"', query)
        assert series == name.replace("vllm_", "vllm:", 1)
        assert series in known
