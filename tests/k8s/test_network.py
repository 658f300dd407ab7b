"""The network policies allow the arrows of the architecture, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.kubernetes.reachability import OUTSIDE, arrows
from harness.kubernetes.rendering import OVERLAYS, Rendered, containers, render

PUBLIC = {8000, 50051}
DNS, HTTPS, OTLP = 53, 443, 4317
# The architecture's picture, with what a cluster needs beside it.
DESIGN = {
    ("gateway", "scheduler"): {50052},
    ("scheduler", "verifier"): {50061},
    ("scheduler", "candidates"): {50053},
    ("candidates", "redis"): {6379},
    **{(name, "dns"): {DNS} for name in ("gateway", "scheduler", "candidates", "model")},
    **{(outside.name, "gateway"): PUBLIC for outside in OUTSIDE},
    # The job that fetches the model.
    **{("model", outside.name): {HTTPS} for outside in OUTSIDE},
    ("model", "dns"): {DNS, HTTPS},
}
WATCHED = {
    **{(name, "collector"): {OTLP} for name in ("gateway", "scheduler", "candidates", "verifier")},
    ("model", "collector"): {HTTPS},
    ("verifier", "dns"): {DNS},
    ("prometheus", "scheduler"): {9152},
    ("prometheus", "candidates"): {9153},
    ("prometheus", "verifier"): {9161},
}


def ports_of(rendered: Rendered) -> set[int]:
    """Every port that a pod has, those of outside services, and some that nobody has."""
    own = {
        port["containerPort"]
        for workload in rendered.workloads
        for container in containers(workload)
        for port in container.get("ports", [])
    }
    return own | {DNS, HTTPS, OTLP, 22, 80, 12345}


@pytest.mark.parametrize("overlay", ["cpu", "gpu"])
def test_only_the_arrows_of_the_design(overlay: str) -> None:
    rendered = render(OVERLAYS / overlay)
    assert arrows(rendered, ports_of(rendered)) == DESIGN


@pytest.mark.parametrize("component", ["replicas", "hpa", "mtls", "api-keys", "public-tls"])
def test_other_components_open_nothing(composed: Callable[..., Rendered], component: str) -> None:
    rendered = composed(component)
    assert arrows(rendered, ports_of(rendered)) == DESIGN


def test_observability_opens_metrics_and_traces(composed: Callable[..., Rendered]) -> None:
    rendered = composed("observability")
    assert arrows(rendered, ports_of(rendered)) == DESIGN | WATCHED


def test_without_its_policies_everything_could_be_reached() -> None:
    """The computation does see an open network."""
    rendered = render(OVERLAYS / "cpu")
    rest = Rendered([m for m in rendered.manifests if m["kind"] != "NetworkPolicy"])
    assert arrows(rest, {22})[("stranger", "redis")] == {22}
