"""One tiny model for all tests, one server for each file of tests that only ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.served import Served, make_tiny_model_dir, ready_server


@pytest.fixture(scope="session")
def tiny_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model_dir(tmp_path_factory.mktemp("model") / "tiny-llama")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_model_dir: Path) -> Iterator[Served]:
    with ready_server(tmp_path_factory.mktemp("server"), tiny_model_dir) as served:
        yield served
