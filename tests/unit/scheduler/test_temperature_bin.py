"""How freely tokens are drawn, as a number of few values."""

from __future__ import annotations

import pytest

from dspark.sampling import SamplingParams
from dspark.scheduler.temperature_bin import EDGES, temperature_bin


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [(0.0, 0), (0.01, 1), (0.35, 1), (0.7, 2), (0.8, 3), (1.0, 3), (1.3, 4), (100.0, len(EDGES))],
)
def test_alike_temperatures_share_a_bin(temperature: float, expected: int) -> None:
    assert temperature_bin(SamplingParams(temperature=temperature)) == expected


def test_one_token_to_choose_from_is_greedy() -> None:
    assert temperature_bin(SamplingParams(temperature=1.0, top_k=1)) == 0
    assert temperature_bin(SamplingParams(temperature=1.0, top_k=2)) > 0
