"""best_of: more completions are drawn than are told, and those with the likeliest tokens are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dspark.gateway.choices import choice_seed
from dspark.v1 import scheduler_service_pb2 as pb
from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import GatewayStack, gateway_stack

SEEDS = [choice_seed(11, index) for index in range(6)]
# By the places of their seeds. A token is the likelier the smaller it is, so the mean of a long
# text may be better than that of a short one, whose sum is better.
TEXTS = ["c", "ab", "aaaaaa", "z", "y", "x"]


def _by_seed(request: pb.SchedulerServiceGenerateRequest) -> Script:
    return Script([*runs_of(TEXTS[SEEDS.index(request.sampling.seed)])])


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[GatewayStack]:
    async with gateway_stack(tmp_path, FakeScheduler(script=_by_seed)) as running:
        yield running


async def test_the_best_are_told_and_all_are_counted(stack: GatewayStack) -> None:
    answer = (await stack.complete(n=2, best_of=3, seed=11)).json()
    choices = answer["choices"]
    assert [choice["text"] for choice in choices] == ["aaaaaa", "ab"]
    assert [choice["index"] for choice in choices] == [0, 1]
    assert [choice["seed"] for choice in choices] == [SEEDS[2], SEEDS[1]]
    assert all(choice["logprobs"] is None for choice in choices)
    assert answer["seed"] == 11
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2, 1 + 2 + 6)
    assert {request.sampling.logprobs for request in stack.scheduler.requests} == {0}
    assert not any(r.sampling.HasField("prompt_logprobs") for r in stack.scheduler.requests)


async def test_each_prompt_has_its_own_best(stack: GatewayStack) -> None:
    asked: dict[str, Any] = {"prompt": ["pp", "qq"], "best_of": 3, "seed": 11, "logprobs": 1}
    answer = (await stack.complete(**asked, echo=True)).json()
    assert [choice["text"] for choice in answer["choices"]] == ["ppaaaaaa", "qqx"]
    assert [choice["seed"] for choice in answer["choices"]] == [SEEDS[2], SEEDS[5]]
    assert [len(c["logprobs"]["tokens"]) for c in answer["choices"]] == [8, 3]


async def test_as_many_as_are_told_change_nothing(stack: GatewayStack) -> None:
    plain = (await stack.complete(n=2, seed=11)).json()
    same = (await stack.complete(n=2, best_of=2, seed=11)).json()
    assert same["choices"] == plain["choices"]
    assert not stack.scheduler.requests[-1].sampling.HasField("logprobs")
    assert (await stack.complete(best_of=1, seed=11, stream=True)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 2, "n": 3}, "best_of"),
        ({"best_of": 0}, "best_of"),
        ({"best_of": 2, "n": 0}, "n"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"best_of": 129}, "best_of"),
        ({"best_of": 65, "prompt": ["a", "b"]}, "best_of"),
        ({"best_of": True}, "best_of"),
    ],
)
async def test_what_cannot_be_is_named(
    stack: GatewayStack, fields: dict[str, Any], param: str
) -> None:
    response = await stack.complete(**fields)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param
