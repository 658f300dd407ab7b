"""What a benchmark sends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dspark.cli.benchmark.plan import BenchPrompt, load_prompts, plan_requests
from dspark.cli.failure import CliError

PROMPTS = [BenchPrompt("k", f"p{i}") for i in range(10)]


def test_prompts_are_read(tmp_path: Path) -> None:
    file = tmp_path / "prompts.json"
    file.write_text(json.dumps([{"kind": "chat", "user": "u", "prompt": "<|x|>u"}]))
    assert load_prompts(file) == [BenchPrompt("chat", "<|x|>u")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "prompts.json"),
        ("[]", "at least one"),
        ("{}", "a list"),
        ('[{"prompt": "a"}, {"user": "b"}]', "entry 1"),
        ('["a"]', "entry 0"),
        ('[{"prompt": 1}]', "entry 0"),
    ],
)
def test_a_broken_file_says_what_is_wrong(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "prompts.json"
    file.write_text(content)
    with pytest.raises(CliError, match=problem) as caught:
        load_prompts(file)
    assert caught.value.exit_code == 2


def test_one_in_flight_is_one_lap() -> None:
    requests = plan_requests(PROMPTS, 1, seed=5)
    assert [request.prompt for request in requests] == PROMPTS
    assert [request.seed for request in requests] == list(range(5, 15))


@pytest.mark.parametrize("concurrency", [2, 8, 32])
def test_more_in_flight_are_whole_laps_with_seeds_and_salts_of_their_own(concurrency: int) -> None:
    requests = plan_requests(PROMPTS, concurrency, seed=0)
    assert len(requests) >= 4 * concurrency
    assert len(requests) % len(PROMPTS) == 0
    assert len({request.seed for request in requests}) == len(requests)
    assert len({(request.prompt, request.lap) for request in requests}) == len(requests)


def test_equal_prompts_get_equal_seeds_at_every_concurrency() -> None:
    alone, together = plan_requests(PROMPTS, 1, seed=3), plan_requests(PROMPTS, 8, seed=3)
    assert together[: len(alone)] == alone
