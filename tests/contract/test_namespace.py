"""``dspark`` is one namespace over two roots."""

from __future__ import annotations

from pathlib import Path

import pytest

import dspark
from harness.repository import PORTIONS, ROOT, sources

PACKAGES = sorted(
    {
        portion / path.relative_to(portion).parts[0]
        for portion in PORTIONS
        for path in portion.rglob("*.py")
        if path.parent != portion
    }
)


@pytest.mark.parametrize("portion", PORTIONS, ids=lambda p: p.parent.name)
def test_no_portion_hides_the_other(portion: Path) -> None:
    assert not (portion / "__init__.py").exists()


def test_both_portions_are_importable_as_one_package() -> None:
    assert {Path(entry).resolve() for entry in dspark.__path__} == set(PORTIONS)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.name)
def test_every_package_is_typed(package: Path) -> None:
    assert (package / "py.typed").is_file()


def test_no_name_is_in_both_portions() -> None:
    shared, services = ({path.name for path in portion.iterdir()} for portion in PORTIONS)
    assert shared & services <= {"__pycache__"}


def test_tests_are_not_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_no_module_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "legacy"}
    assert not [path for path in sources() if path.stem in vague or path.parent.name in vague]
