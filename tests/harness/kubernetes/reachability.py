"""Who can reach whom through the NetworkPolicies of a rendering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.kubernetes.rendering import Rendered, containers, pod_labels, selects

NAMESPACE = "dspark"
Arrow = tuple[str, str]


@dataclass(frozen=True)
class Endpoint:
    """A pod, or with ``namespace`` None an address outside the cluster."""

    name: str
    namespace: str | None
    labels: Mapping[str, str] = field(default_factory=dict)
    named_ports: Mapping[str, int] = field(default_factory=dict)


OUTSIDE = (
    Endpoint("dns", "kube-system", {"k8s-app": "kube-dns"}),
    Endpoint("kube-system", "kube-system", {"k8s-app": "other"}),
    Endpoint("prometheus", "monitoring"),
    Endpoint("collector", "observability"),
    Endpoint("other namespace", "other"),
    Endpoint("internet", None),
)


def endpoints(rendered: Rendered) -> list[Endpoint]:
    """The rendering's pods, a pod beside them that nobody knows, and what is outside."""
    pods = [
        Endpoint(w["metadata"]["name"], NAMESPACE, pod_labels(w), dict(_named_ports(w)))
        for w in rendered.workloads
    ]
    return [*pods, Endpoint("stranger", NAMESPACE), *OUTSIDE]


def arrows(rendered: Rendered, ports: Iterable[int]) -> dict[Arrow, set[int]]:
    """The TCP ports among ``ports`` on which each pod of the namespace may call or be called."""
    policies = rendered.of_kind("NetworkPolicy")
    found: dict[Arrow, set[int]] = {}
    everyone = endpoints(rendered)
    for source in everyone:
        for target in everyone:
            if source == target or NAMESPACE not in (source.namespace, target.namespace):
                continue
            allowed = {
                port
                for port in ports
                if _allows(policies, "Egress", source, target, port)
                and _allows(policies, "Ingress", target, source, port)
            }
            if allowed:
                found[source.name, target.name] = allowed
    return found


def _named_ports(workload: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for container in containers(workload):
        for port in container.get("ports", []):
            yield port["name"], port["containerPort"]


def _allows(
    policies: list[dict[str, Any]], direction: str, pod: Endpoint, peer: Endpoint, port: int
) -> bool:
    """Whether the policies that select ``pod`` let it talk with ``peer`` in this direction.

    ``port`` is one of whichever of the two is called.
    """
    if pod.namespace != NAMESPACE:
        return True
    selecting = [
        policy["spec"]
        for policy in policies
        if direction in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], dict(pod.labels))
    ]
    if not selecting:
        return True
    called = pod if direction == "Ingress" else peer
    side = "from" if direction == "Ingress" else "to"
    return any(
        _rule_matches(rule, side, peer, called, port)
        for spec in selecting
        for rule in spec.get(direction.lower()) or []
    )


def _rule_matches(
    rule: Mapping[str, Any], side: str, peer: Endpoint, called: Endpoint, port: int
) -> bool:
    peers, ports = rule.get(side), rule.get("ports")
    if peers and not any(_peer_matches(item, peer) for item in peers):
        return False
    return not ports or any(_port_matches(item, called, port) for item in ports)


def _port_matches(item: Mapping[str, Any], called: Endpoint, port: int) -> bool:
    if item.get("protocol", "TCP") != "TCP":
        return False
    wanted = item["port"]
    return port == (called.named_ports.get(wanted) if isinstance(wanted, str) else wanted)


def _peer_matches(item: Mapping[str, Any], peer: Endpoint) -> bool:
    assert "ipBlock" not in item, "address blocks are not modelled"
    if peer.namespace is None:
        return False
    if "namespaceSelector" in item:
        labels = {"kubernetes.io/metadata.name": peer.namespace}
        if not selects(item["namespaceSelector"], labels):
            return False
    elif peer.namespace != NAMESPACE:
        return False
    return selects(item.get("podSelector", {}), dict(peer.labels))
