"""A service imports with nothing but its own extra, and the SDK with gRPC alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness.distributions import closure, top_level_modules_outside
from harness.repository import module_name, sources

# Imported only where one of these sources is asked for.
ON_DEMAND = (
    "dspark.candidates.draft_model.",
    "dspark.candidates.sources.block.",
    "dspark.candidates.served_linear",
)
SERVICES = ("gateway", "scheduler", "candidates", "verifier", "cli")
IMPORT_ALL = """
import importlib, json, sys

modules, forbidden = json.loads(sys.stdin.read())

class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in forbidden:
            raise ModuleNotFoundError(f"{name} is not among what this service installs")

sys.meta_path.insert(0, Forbid())
for module in modules:
    importlib.import_module(module)
"""


def import_all(modules: list[str], forbidden: set[str]) -> None:
    """Import the modules in a fresh interpreter in which ``forbidden`` are not installed."""
    assert modules
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        input=json.dumps([modules, sorted(forbidden - {"dspark"})]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def modules_of(package: str) -> list[str]:
    names = [module_name(path) for path in sources()]
    return [name for name in names if name == package or name.startswith(package + ".")]


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_imports_with_its_extra_alone(service: str) -> None:
    installed = closure("dspark", frozenset({service}))
    modules = [name for name in modules_of(f"dspark.{service}") if not name.startswith(ON_DEMAND)]
    import_all(modules, top_level_modules_outside(installed))


@pytest.mark.parametrize("package", ON_DEMAND)
def test_what_is_imported_on_demand_needs_the_drafters_extra_at_most(package: str) -> None:
    installed = closure("dspark", frozenset({"candidates", "drafters"}))
    import_all(modules_of(package.rstrip(".")), top_level_modules_outside(installed))


@pytest.mark.parametrize("service", ["gateway", "scheduler"])
def test_a_service_without_tensors_imports_without_torch(service: str) -> None:
    import_all(modules_of(f"dspark.{service}"), {"torch", "transformers", "numpy"})


def test_the_command_line_leaves_torch_to_child_processes() -> None:
    import_all(modules_of("dspark.cli"), {"torch", "transformers"})


def test_an_offline_llm_imports_with_what_the_command_line_installs() -> None:
    installed = closure("dspark", frozenset({"cli"}))
    import_all(modules_of("dspark.llm"), top_level_modules_outside(installed))


def test_the_sdk_imports_with_grpc_alone() -> None:
    import_all(modules_of("dspark.client"), top_level_modules_outside(closure("dspark")))


def test_the_guard_of_these_tests_refuses_what_is_not_installed() -> None:
    with pytest.raises(AssertionError, match="torch is not among"):
        import_all(["torch"], {"torch"})
