"""Fixtures of several integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.gateway_stack import GatewayStack, gateway_stack


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of minutes run where they are asked for by their marker."""
    if "long" in config.option.markexpr:
        return
    for item in items:
        if "long" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="takes minutes: ask with -m long"))


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[GatewayStack]:
    """A gateway in front of a scheduler with the script that answers every request alike."""
    async with gateway_stack(tmp_path) as running:
        yield running
