"""gRPC and protobuf stay at the edges; import-linter holds the other directions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.repository import module_name, sources

EDGE_PACKAGES = {"wire", "client"}
EDGE_MODULES = {
    "rpc",
    "rpc_errors",
    "exchange",
    "health",
    "credentials",
    "reloading_channel",
    "server",
    "servicer",
    "telemetry",
    "__main__",
}
EDGE_IMPORTS = ("grpc.", "google.protobuf.", "google.rpc.", "dspark.v1.")
EDGE_ENDINGS = ("_servicer", "_client", "_interceptor")


def is_edge(path: Path) -> bool:
    parts = module_name(path).split(".")
    name = path.stem
    return bool(EDGE_PACKAGES & set(parts)) or name in EDGE_MODULES or name.endswith(EDGE_ENDINGS)


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", [p for p in sources() if not is_edge(p)], ids=module_name)
def test_the_core_imports_neither_grpc_nor_protobuf(path: Path) -> None:
    assert not [name for name in imports_of(path) if f"{name}.".startswith(EDGE_IMPORTS)]


def test_imports_are_absolute() -> None:
    relative = [
        module_name(path)
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative
