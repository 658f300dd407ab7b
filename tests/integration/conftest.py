"""Fixtures of several integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.gateway_stack import GatewayStack, gateway_stack


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[GatewayStack]:
    """A gateway in front of a scheduler with the script that answers every request alike."""
    async with gateway_stack(tmp_path) as running:
        yield running
