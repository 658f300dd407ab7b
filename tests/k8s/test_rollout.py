"""A rollout, a drain and an autoscaler lose no request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dspark.gateway.resumption import FIRST_PATIENCE_S
from dspark.service_addresses import RESOLVE_INTERVAL_S
from harness.kubernetes.environment import environment_of
from harness.kubernetes.rendering import Rendered, main_container, pod_spec

SERVICES = ("gateway", "scheduler", "candidates", "verifier")
# How long a name server of a cluster may repeat an old answer.
DNS_CACHE_S = 30
# Time to stop after draining, before the kubelet kills.
MARGIN_S = 10


def seconds(rendered: Rendered, service: str, name: str) -> float:
    container = main_container(rendered.named("Deployment", service))
    return float(environment_of(container, rendered).get(name, 0))


@pytest.mark.parametrize("service", SERVICES)
def test_there_is_time_to_drain(rendered: Rendered, service: str) -> None:
    spec = pod_spec(rendered.named("Deployment", service))
    hook = main_container(rendered.named("Deployment", service)).get("lifecycle", {})
    before = hook.get("preStop", {}).get("sleep", {}).get("seconds", 0)
    drain = seconds(rendered, service, "DSPARK_DRAIN_S")
    assert drain > 0
    needed = before + seconds(rendered, service, "DSPARK_DRAIN_PAUSE_S") + drain + MARGIN_S
    assert spec["terminationGracePeriodSeconds"] >= needed


def test_gateways_serve_on_until_they_get_no_more_requests(rendered: Rendered) -> None:
    probe = main_container(rendered.named("Deployment", "gateway"))["readinessProbe"]
    assert seconds(rendered, "gateway", "DSPARK_DRAIN_PAUSE_S") >= probe["periodSeconds"] + 5


@pytest.mark.parametrize("service", SERVICES)
def test_a_new_pod_is_ready_before_an_old_one_goes(rendered: Rendered, service: str) -> None:
    spec = rendered.named("Deployment", service)["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert "readinessProbe" in main_container(rendered.named("Deployment", service))


@pytest.mark.parametrize("service", ["scheduler", "candidates", "verifier"])
def test_callers_know_a_new_worker_before_an_old_one_goes(rendered: Rendered, service: str) -> None:
    ready = rendered.named("Deployment", service)["spec"]["minReadySeconds"]
    assert ready >= DNS_CACHE_S + RESOLVE_INTERVAL_S


def test_requests_wait_for_a_verifier_as_long_as_it_may_take_to_start(rendered: Rendered) -> None:
    probe = main_container(rendered.named("Deployment", "verifier"))["startupProbe"]
    start = probe["periodSeconds"] * probe["failureThreshold"]
    assert start >= seconds(rendered, "scheduler", "DSPARK_VERIFIER_TIMEOUT_S") >= 60


def test_gateways_stay_reachable_as_long_as_requests_wait_for_a_scheduler(
    rendered: Rendered,
) -> None:
    probe = main_container(rendered.named("Deployment", "gateway"))["readinessProbe"]
    assert probe["periodSeconds"] * (probe["failureThreshold"] - 1) >= FIRST_PATIENCE_S


@pytest.mark.parametrize("service", ["gateway", "candidates", "verifier"])
def test_replicas_doubles_what_clients_would_miss(
    composed: Callable[..., Rendered], service: str
) -> None:
    assert composed("replicas").named("Deployment", service)["spec"]["replicas"] == 2
    assert composed("replicas").named("Deployment", "scheduler")["spec"]["replicas"] == 1


@pytest.mark.parametrize("service", ["gateway", "candidates", "verifier"])
def test_an_apply_does_not_undo_the_autoscaler(
    composed: Callable[..., Rendered], service: str
) -> None:
    rendered = composed("replicas", "hpa")
    scaler: dict[str, Any] = rendered.named("HorizontalPodAutoscaler", service)["spec"]
    assert scaler["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": service,
    }
    assert 2 <= scaler["minReplicas"] < scaler["maxReplicas"]
    assert "replicas" not in rendered.named("Deployment", service)["spec"]
