"""What every fleet of these tests is made of."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.byte_tokenizer import write_model_dir
from harness.chaos.plan import FleetPlan


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose name leaves room in the 107 bytes of a unix socket's path."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        yield Path(folder)


@pytest.fixture
def fleet_plan(short_folder: Path) -> FleetPlan:
    """Two verifiers that hash, one of everything else."""
    return FleetPlan(short_folder, write_model_dir(short_folder / "model"))
