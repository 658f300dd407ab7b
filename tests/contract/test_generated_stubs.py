"""The committed stubs are what the protos say, and run on the versions the package asks for."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from harness.repository import GENERATED, PROTOS, ROOT

REQUIREMENTS = {
    requirement.name: requirement
    for requirement in map(
        Requirement,
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"],
    )
}


def generate(into: Path) -> None:
    protos = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    services = [name for name in protos if name.endswith("_service.proto")]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", "."]
    for arguments in (
        [f"--python_out={into}", f"--pyi_out={into}", *protos],
        [f"--grpc_python_out={into}", *services],
    ):
        subprocess.run([*protoc, *arguments], cwd=PROTOS, check=True, timeout=120)


def test_the_committed_stubs_are_fresh(tmp_path: Path) -> None:
    generate(tmp_path)
    fresh = {path.name: path.read_text() for path in (tmp_path / "dspark" / "v1").iterdir()}
    committed = {path.name: path.read_text() for path in GENERATED.glob("*_pb2*")}
    assert sorted(committed) == sorted(fresh)
    stale = [name for name, text in fresh.items() if committed[name] != text]
    assert not stale, "run `make proto`"


@pytest.mark.parametrize(
    ("distribution", "pattern"),
    [
        ("protobuf", r"Protobuf Python Version: ([\d.]+)"),
        ("grpcio", r"GRPC_GENERATED_VERSION = '([\d.]+)'"),
    ],
)
def test_the_requirement_starts_where_the_stubs_start(distribution: str, pattern: str) -> None:
    generated_for = {
        Version(found)
        for path in GENERATED.glob("*_pb2*.py")
        for found in re.findall(pattern, path.read_text())
    }
    floors = {
        Version(specifier.version)
        for specifier in REQUIREMENTS[distribution].specifier
        if specifier.operator == ">="
    }
    assert generated_for == floors
    assert Version(version(distribution)) >= max(generated_for)
