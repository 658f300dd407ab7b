"""The device under test: CUDA, or what DSPARK_TEST_DEVICE names, to try the tests themselves."""

from __future__ import annotations

import os

import pytest
import torch


@pytest.fixture(scope="session")
def device() -> str:
    wanted = os.environ.get("DSPARK_TEST_DEVICE", "cuda")
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return wanted
