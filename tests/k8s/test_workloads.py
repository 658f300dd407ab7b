"""Every pod is confined, bounded and of a known image."""

from __future__ import annotations

import tomllib

import pytest

from harness.kubernetes.rendering import (
    Manifest,
    Rendered,
    containers,
    pod_labels,
    pod_spec,
    selects,
)
from harness.repository import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
OWN_IMAGES = {
    "dspark-gateway",
    "dspark-scheduler",
    "dspark-candidates",
    "dspark-verifier",
    "dspark-model",
}
SERVICES = ("gateway", "scheduler", "candidates", "verifier", "redis")


def all_containers(rendered: Rendered) -> list[Manifest]:
    found = [container for workload in rendered.workloads for container in containers(workload)]
    assert len(found) >= len(SERVICES) + 1
    return found


def test_pods_run_as_nobody_that_matters(rendered: Rendered) -> None:
    for workload in rendered.workloads:
        spec = pod_spec(workload)
        context = spec["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] > 0 and context["runAsGroup"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()


def test_containers_can_neither_write_nor_gain(rendered: Rendered) -> None:
    for container in all_containers(rendered):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_nobody_gets_a_token_of_the_cluster(rendered: Rendered) -> None:
    for account in rendered.of_kind("ServiceAccount"):
        assert account["automountServiceAccountToken"] is False
    for workload in rendered.workloads:
        assert pod_spec(workload)["automountServiceAccountToken"] is False
    accounts = [pod_spec(workload)["serviceAccountName"] for workload in rendered.workloads]
    assert len(set(accounts)) == len(accounts)


def test_every_container_has_requests_and_limits(rendered: Rendered) -> None:
    for container in all_containers(rendered):
        resources = container["resources"]
        assert resources["requests"].keys() >= {"cpu", "memory"}, container["name"]
        assert resources["limits"].keys() >= {"cpu", "memory"}, container["name"]
        # Memory that is not reserved is taken away at the worst moment.
        assert resources["requests"]["memory"] == resources["limits"]["memory"]


def test_volumes_that_fill_are_bounded(rendered: Rendered) -> None:
    volumes = [v for w in rendered.workloads for v in pod_spec(w).get("volumes", [])]
    scratch = [volume["emptyDir"] for volume in volumes if "emptyDir" in volume]
    assert scratch and all("sizeLimit" in volume for volume in scratch)


def test_images_are_ours_and_of_this_version(rendered: Rendered) -> None:
    for container in all_containers(rendered):
        name, _, tag = container["image"].partition(":")
        if name in OWN_IMAGES:
            assert tag in (VERSION, f"{VERSION}-cuda")
        else:
            assert name == "redis" and tag[0].isdigit()


@pytest.mark.parametrize("service", SERVICES)
def test_disruptions_come_one_at_a_time_and_never_block(rendered: Rendered, service: str) -> None:
    workload = rendered.named("StatefulSet" if service == "redis" else "Deployment", service)
    budgets = [
        budget["spec"]
        for budget in rendered.of_kind("PodDisruptionBudget")
        if selects(budget["spec"]["selector"], pod_labels(workload))
    ]
    assert len(budgets) == 1
    # minAvailable: 1 on a single replica would hold up the drain of its node for ever.
    assert budgets[0]["maxUnavailable"] == 1
    assert budgets[0]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_the_namespace_enforces_the_restricted_standard(rendered: Rendered) -> None:
    labels = rendered.named("Namespace", "dspark")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_replicas_spread_over_nodes(rendered: Rendered) -> None:
    for workload in rendered.of_kind("Deployment"):
        [constraint] = pod_spec(workload)["topologySpreadConstraints"]
        assert constraint["topologyKey"] == "kubernetes.io/hostname"
        assert selects(constraint["labelSelector"], pod_labels(workload))
