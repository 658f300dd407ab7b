"""What manifests tell a service is what the service can be told."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import pytest
from opentelemetry.sdk import environment_variables

from dspark.candidates.config import CandidatesConfig
from dspark.cli.models.known import KNOWN_MODELS
from dspark.config import from_namespace
from dspark.gateway.config import GatewayConfig
from dspark.scheduler.config import SchedulerConfig
from dspark.v1 import (
    candidates_service_pb2,
    inference_service_pb2,
    scheduler_service_pb2,
    verifier_service_pb2,
)
from dspark.verifier.config import VerifierConfig
from harness.kubernetes.environment import environment_of
from harness.kubernetes.rendering import (
    OVERLAYS,
    Manifest,
    Rendered,
    containers,
    main_container,
    render,
)

CONFIGS: dict[str, type[Any]] = {
    "gateway": GatewayConfig,
    "scheduler": SchedulerConfig,
    "candidates": CandidatesConfig,
    "verifier": VerifierConfig,
}
SERVICE_NAMES = {
    "gateway": inference_service_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name,
    "scheduler": scheduler_service_pb2.DESCRIPTOR.services_by_name["SchedulerService"].full_name,
    "candidates": candidates_service_pb2.DESCRIPTOR.services_by_name["CandidatesService"].full_name,
    "verifier": verifier_service_pb2.DESCRIPTOR.services_by_name["VerifierService"].full_name,
}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@pytest.fixture(params=CONFIGS)
def service(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def environment(rendered: Rendered, service: str) -> dict[str, str]:
    return environment_of(main_container(rendered.named("Deployment", service)), rendered)


def config_of(rendered: Rendered, service: str) -> Any:
    """The config that the service would start with."""
    nothing_on_the_command_line = argparse.Namespace()
    return from_namespace(
        CONFIGS[service], nothing_on_the_command_line, environment(rendered, service)
    )


def port_of(address: str) -> int:
    host, _, port = address.rpartition(":")
    assert host == "0.0.0.0", f"{address} is not reached from other pods"
    return int(port)


def ports(container: Manifest) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def test_every_setting_exists_and_is_accepted(rendered: Rendered, service: str) -> None:
    given = {
        name.removeprefix("DSPARK_").lower()
        for name in environment(rendered, service)
        if name.startswith("DSPARK_")
    }
    assert given <= {field.name for field in dataclasses.fields(CONFIGS[service])}
    assert config_of(rendered, service) is not None


def test_other_variables_are_known(rendered: Rendered, service: str) -> None:
    names = {name for name in environment(rendered, service) if not name.startswith("DSPARK_")}
    known = {value for value in vars(environment_variables).values() if isinstance(value, str)}
    assert not names - {"MODEL_DIRECTORY", "POD_NAME", "POD_NAMESPACE"} - known


def test_workers_listen_where_their_ports_and_probes_are(rendered: Rendered, service: str) -> None:
    config = config_of(rendered, service)
    container = main_container(rendered.named("Deployment", service))
    expected = {"health": config.health_port}
    if service == "gateway":
        expected |= {"http": port_of(config.http), "grpc": port_of(config.grpc)}
    else:
        expected |= {"grpc": port_of(config.listen), "metrics": config.metrics_port}
    assert ports(container) == expected


def test_probes_ask_the_health_port_for_the_service(rendered: Rendered, service: str) -> None:
    config = config_of(rendered, service)
    container = main_container(rendered.named("Deployment", service))
    asked = {probe: container[probe]["grpc"] for probe in PROBES}
    assert {probe["port"] for probe in asked.values()} == {config.health_port}
    assert asked["readinessProbe"]["service"] == SERVICE_NAMES[service]
    for probe in asked.values():
        assert probe.get("service", "") in ("", SERVICE_NAMES[service])


def test_services_call_each_other_where_they_listen(rendered: Rendered) -> None:
    calls = {
        *config_of(rendered, "gateway").scheduler,
        *config_of(rendered, "scheduler").verifier,
        *config_of(rendered, "scheduler").candidates,
    }
    assert calls == {
        f"dns:///{address(rendered, n)}" for n in ("scheduler", "verifier", "candidates")
    }
    assert config_of(rendered, "candidates").redis_url == f"redis://{address(rendered, 'redis')}/0"


def address(rendered: Rendered, service: str) -> str:
    [port] = rendered.named("Service", service)["spec"]["ports"]
    return f"{service}:{port['port']}"


def test_names_that_list_workers_are_headless(rendered: Rendered) -> None:
    for name in ("scheduler", "verifier", "candidates"):
        assert rendered.named("Service", name)["spec"]["clusterIP"] == "None"


def test_the_model_is_read_where_the_job_puts_it(rendered: Rendered) -> None:
    job = main_container(rendered.named("Job", "model"))
    fetched = environment_of(job, rendered)
    name, link = (
        argument.replace(f"$({key})", fetched[key])
        for argument, key in zip(job["args"], ("NAME", "DIRECTORY"), strict=True)
    )
    assert name in KNOWN_MODELS
    gateway, verifier = config_of(rendered, "gateway"), config_of(rendered, "verifier")
    assert link == gateway.model_dir == verifier.model
    assert name == gateway.model_name == verifier.model_id
    assert name == config_of(rendered, "candidates").model_id
    mounts = [m for w in rendered.workloads for c in containers(w) for m in c["volumeMounts"]]
    assert {m["mountPath"] for m in mounts if m["name"] == "model"} == {"/models"}
    assert link.startswith("/models/")


def test_the_gpu_overlay_asks_for_the_device_that_it_uses() -> None:
    rendered = render(OVERLAYS / "gpu")
    assert config_of(rendered, "verifier").device == "cuda"
    verifier = rendered.named("Deployment", "verifier")
    assert main_container(verifier)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert config_of(render(OVERLAYS / "cpu"), "verifier").device == "cpu"
