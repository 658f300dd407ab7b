"""What is rendered fits the published schemas, and names nothing that is not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.kubernetes.rendering import (
    Manifest,
    Rendered,
    containers,
    pod_labels,
    pod_spec,
    selects,
    walk,
)
from harness.kubernetes.schemas import is_of_operator, problems

# The oldest version that has all that is used, and the newest one whose schemas are at hand.
VERSIONS = ("1.27", "1.37")
# Secrets that a user or cert-manager provides; k8s/README.md says how.
PROVIDED_SECRETS = {
    "hub-token",
    "api-keys",
    "gateway-tls",
    "scheduler-tls",
    "candidates-tls",
    "verifier-tls",
    "gateway-public-tls",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_resources_fit_their_schemas(rendered: Rendered, version: str) -> None:
    own = [m for m in rendered.manifests if not is_of_operator(m)]
    assert own and not [problem for m in own for problem in problems(m, version)]


@pytest.mark.slow
@pytest.mark.parametrize("components", [("observability", "public-tls"), ("mtls", "cert-manager")])
def test_operator_resources_fit_their_schemas(
    composed: Callable[..., Rendered], components: tuple[str, ...]
) -> None:
    foreign = [m for m in composed(*components).manifests if is_of_operator(m)]
    assert foreign and not [problem for m in foreign for problem in problems(m, VERSIONS[-1])]


def test_a_field_that_does_not_exist_is_found(rendered: Rendered) -> None:
    gateway = rendered.named("Deployment", "gateway")
    broken: Manifest = {**gateway, "spec": {**gateway["spec"], "replica": 1}}
    assert any("'replica'" in problem for problem in problems(broken, VERSIONS[-1]))


def test_no_name_is_given_twice(rendered: Rendered) -> None:
    names = [(m["kind"], m["metadata"]["name"]) for m in rendered.manifests]
    assert len(set(names)) == len(names)


def test_all_is_in_the_namespace_and_labelled(rendered: Rendered) -> None:
    for manifest in rendered.manifests:
        metadata = manifest["metadata"]
        if manifest["kind"] != "Namespace":
            assert metadata["namespace"] == "dspark", metadata["name"]


def test_what_pods_refer_to_exists(rendered: Rendered) -> None:
    for workload in rendered.workloads:
        spec = pod_spec(workload)
        assert spec["serviceAccountName"] in rendered.names("ServiceAccount")
        references = list(walk(spec))
        maps = {r[key]["name"] for r in references for key in _MAP_REFERENCES if key in r}
        claims = {
            r["persistentVolumeClaim"]["claimName"]
            for r in references
            if "persistentVolumeClaim" in r
        }
        assert maps <= rendered.names("ConfigMap")
        assert claims <= rendered.names("PersistentVolumeClaim")
        assert _secrets(references) <= PROVIDED_SECRETS | rendered.names("Secret")


_MAP_REFERENCES = ("configMapRef", "configMapKeyRef")


def _secrets(references: list[Manifest]) -> set[str]:
    mounted = {r["secret"]["secretName"] for r in references if "secret" in r}
    keyed = {r["secretKeyRef"]["name"] for r in references if "secretKeyRef" in r}
    return mounted | keyed


def test_every_mount_has_its_volume(rendered: Rendered) -> None:
    for workload in rendered.workloads:
        volumes = {volume["name"] for volume in pod_spec(workload).get("volumes", [])}
        claims = workload["spec"].get("volumeClaimTemplates", [])
        volumes |= {claim["metadata"]["name"] for claim in claims}
        mounted = {m["name"] for c in containers(workload) for m in c.get("volumeMounts", [])}
        assert mounted == volumes, workload["metadata"]["name"]


def test_every_selector_selects_one_workload(rendered: Rendered) -> None:
    selectors = {
        (m["kind"], m["metadata"]["name"]): m["spec"]["selector"]
        for m in rendered.of_kind("Deployment", "StatefulSet", "PodDisruptionBudget", "Service")
    }
    for (kind, name), selector in selectors.items():
        labels = {"matchLabels": selector} if kind == "Service" else selector
        selected = [w for w in rendered.workloads if selects(labels, pod_labels(w))]
        assert [w["metadata"]["name"] for w in selected] == [name], (kind, name)


def test_every_service_port_leads_to_a_container_port(rendered: Rendered) -> None:
    for service in rendered.of_kind("Service"):
        workload = rendered.named(
            "StatefulSet" if service["metadata"]["name"] == "redis" else "Deployment",
            service["metadata"]["name"],
        )
        listed = [port for c in containers(workload) for port in c.get("ports", [])]
        ports = {port["name"]: port["containerPort"] for port in listed}
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"], service["metadata"]["name"]
