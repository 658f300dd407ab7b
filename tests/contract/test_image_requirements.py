"""What goes into images: each service's own requirements, torch with the verifier alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.repository import ROOT

SCRIPT = ROOT / "services" / "requirements_of.py"


def names_of(*extras: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *extras], capture_output=True, text=True, check=True
    )
    return {line.split(">")[0].split("[")[0].split("=")[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("service", ["gateway", "scheduler", "candidates", "verifier"])
def test_a_service_gets_the_base_and_its_extra(service: str) -> None:
    names = names_of(service)
    assert {"grpcio", "protobuf", "prometheus-client"} <= names
    assert ("torch" in names) == (service == "verifier")
    assert ("fastapi" in names) == (service == "gateway")


def test_candidates_that_run_networks_add_torch() -> None:
    assert names_of("candidates", "drafters") - names_of("candidates") == {
        "torch",
        "transformers",
        "safetensors",
        "accelerate",
    }


def test_an_extra_of_extras_is_resolved() -> None:
    assert names_of("serve") == names_of("gateway", "scheduler", "candidates", "verifier", "cli")
    assert "dspark" not in names_of("serve")


def test_an_extra_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        names_of("gatewai")
