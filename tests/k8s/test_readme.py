"""k8s/README.md names what there is, and its overlay renders."""

from __future__ import annotations

import re
from os.path import relpath
from pathlib import Path

import yaml

from harness.kubernetes.rendering import (
    COMPONENTS,
    K8S,
    OVERLAYS,
    Rendered,
    containers,
    pod_spec,
    render,
)

README = (K8S / "README.md").read_text()


def first_cells() -> set[str]:
    """The names in the first column of the tables."""
    return set(re.findall(r"^\| `([\w/-]+)` \|", README, re.MULTILINE))


def test_every_overlay_and_component_is_listed() -> None:
    overlays = {f"overlays/{path.name}" for path in OVERLAYS.iterdir()}
    components = {path.name for path in COMPONENTS.iterdir()}
    assert first_cells() == overlays | components


def test_every_secret_is_named(rendered: Rendered) -> None:
    volumes = [v for w in rendered.workloads for v in pod_spec(w).get("volumes", [])]
    secrets = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    assert all(f"`{name}`" in README for name in secrets)


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?://)([^)#\s]+)", README)
    assert targets and all((K8S / target).exists() for target in targets)


def test_the_overlay_it_shows_renders(tmp_path: Path) -> None:
    shown = next(b for b in re.findall(r"```yaml\n(.*?)```", README, re.S) if "resources:" in b)
    kustomization = yaml.safe_load(shown)
    for key in ("resources", "components"):
        kustomization[key] = [_from(tmp_path, path) for path in kustomization[key]]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    rendered = render(tmp_path)
    images = {c["image"] for w in rendered.workloads for c in containers(w)}
    assert {image for image in images if not image.startswith("REGISTRY/dspark-")} == {
        image for image in images if image.startswith("redis:")
    }


def _from(directory: Path, path: str) -> str:
    """A path of the shown overlay, which lies two folders below the repository, from another."""
    return relpath(K8S.parent / path.removeprefix("../../"), directory)
