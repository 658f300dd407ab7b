"""Settings that cannot be are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from dspark.scheduler.config import SchedulerConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ageing_s", 0.0),
        ("batch_share", 0.0),
        ("batch_share", 1.0),
        ("tenant_share", -0.5),
        ("long_share", 1.5),
        ("long_output_tokens", 0),
        ("long_prompt_tokens", 0),
        ("preempt_after_s", -1.0),
        ("max_prompt_ms", float("inf")),
        ("interactive_max_wait_s", float("nan")),
        ("batch_tpot_ms", -1.0),
    ],
)
def test_a_bad_value_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        SchedulerConfig(("v:1",), **{name: value})
