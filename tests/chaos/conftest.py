"""What every fleet of these tests is made of."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.byte_tokenizer import write_model_dir
from harness.chaos.plan import FleetPlan


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of minutes run where they are asked for by their marker."""
    if "long" in config.option.markexpr:
        return
    for item in items:
        if "long" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="takes minutes: ask with -m long"))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose name leaves room in the 107 bytes of a unix socket's path."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        yield Path(folder)


@pytest.fixture
def fleet_plan(short_folder: Path) -> FleetPlan:
    """Two verifiers that hash, one of everything else."""
    return FleetPlan(short_folder, write_model_dir(short_folder / "model"))
