"""Settings of the scheduler."""

from __future__ import annotations

import pytest

from dspark.config import parse, to_arguments
from dspark.scheduler.config import SchedulerConfig

ADDRESSES = ["--listen", "unix:/s", "--verifier", "unix:/v"]


def test_flags_become_settings_and_back() -> None:
    flags = [*ADDRESSES, "--policy", "fixed", "--num-draft-tokens", "3", "--max-waiting", "9"]
    config = parse(SchedulerConfig, "", flags)
    assert (config.policy, config.num_draft_tokens, config.max_waiting) == ("fixed", 3, 9)
    assert config.candidates == ()
    assert parse(SchedulerConfig, "", to_arguments(config)) == config


@pytest.mark.parametrize(
    "flags",
    [
        ADDRESSES[:2],
        [*ADDRESSES, "--policy", "nonsense"],
        [*ADDRESSES, "--max-num-seqs", "0"],
        [*ADDRESSES, "--propose-deadline-ms", "nan"],
        [*ADDRESSES, "--explore-share", "1"],
        [*ADDRESSES, "--drain-s=-1"],
        [*ADDRESSES, "--log-level", "loud"],
    ],
)
def test_bad_settings_end_the_program(flags: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(SchedulerConfig, "", flags)
    assert caught.value.code == 2
