"""docker-compose.yml and its overlays: rights, limits and variables, without an engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.repository import ROOT

BASE = ROOT / "docker-compose.yml"
FILES = [BASE, *sorted((ROOT / "compose").glob("*.yml"))]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(BASE.read_text())["services"]
VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}")
EXAMPLE = dict(
    line.lstrip("#").split("=", 1)
    for line in (ROOT / ".env.example").read_text().splitlines()
    if re.match(r"#?[A-Z_]+=", line)
)
# What stands for "not set", and defaults that are shown as an example of a value.
UNSET = {"LOCAL_MODELS"}


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


@pytest.mark.parametrize("name", SERVICES)
def test_containers_get_no_more_rights_than_they_need(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"] and service["pids_limit"]
    assert service["restart"] == ("no" if name == "model" else "unless-stopped")


@pytest.mark.parametrize("name", SERVICES)
def test_only_the_gateway_publishes_ports(name: str) -> None:
    assert ("ports" in SERVICES[name]) == (name == "gateway")


@pytest.mark.parametrize("name", ["gateway", "scheduler", "candidates", "verifier"])
def test_the_engine_waits_longer_than_a_service_drains(name: str) -> None:
    service = SERVICES[name]
    drain = float(service["environment"]["DSPARK_DRAIN_S"])
    assert seconds(service["stop_grace_period"]) >= drain + 10


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_variable_is_in_the_example_with_its_default(path: Path) -> None:
    used = VARIABLE.findall(path.read_text())
    assert not {name for name, _ in used} - set(EXAMPLE)
    assert not {n: d for n, d in used if n not in UNSET and EXAMPLE[n] != d}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_mounted_files_of_the_repository_exist(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    mounts = [m for s in document["services"].values() for m in s.get("volumes", [])]
    ours = [mount.split(":")[0] for mount in mounts if mount.startswith("./")]
    assert not [name for name in ours if not (ROOT / name).exists()]


def test_the_heads_of_overlays_name_them() -> None:
    for path in FILES[1:]:
        assert f"-f docker-compose.yml -f compose/{path.name} up" in path.read_text()
