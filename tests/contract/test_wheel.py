"""The wheel carries both portions and what they need beside Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from harness.repository import PORTIONS, ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--quiet", "--wheel-dir", str(into), str(ROOT)], check=True, timeout=240
    )
    (built,) = into.glob("*.whl")
    return built


def test_the_wheel_has_every_file_of_both_portions(wheel: Path) -> None:
    expected = {
        str(path.relative_to(portion.parent))
        for portion in PORTIONS
        for path in portion.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    names = set(ZipFile(wheel).namelist())
    assert expected <= names
    assert any(name.endswith(".cpp") for name in names)


def test_the_wheel_has_nothing_else_but_its_metadata(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dspark"}
    assert "dspark/__init__.py" not in names


def test_the_wheel_names_its_licence_and_its_command(wheel: Path) -> None:
    archive = ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = archive.read(metadata).decode()
    assert "License-Expression: Apache-2.0" in text
    entry_points = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    assert "dspark = dspark.cli.__main__:main" in entry_points
