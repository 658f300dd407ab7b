"""Choices of one prompt on a real verifier: its K/V is computed once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.fake_model import FakeModel
from harness.traced_stack import TracedStack, traced_stack
from harness.verifier_service import fake_loader

BLOCK_SIZE = 4
PROMPT = "a prompt that fills some blocks and a half"
NUM_FULL_TOKENS = (len(PROMPT) - 1) // BLOCK_SIZE * BLOCK_SIZE


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[TracedStack]:
    async with traced_stack(tmp_path, fake_loader(FakeModel(vocab_size=258)), {}) as running:
        yield running


async def ask(stack: TracedStack, **fields: Any) -> dict[str, Any]:
    body = {"prompt": PROMPT, "max_tokens": 12, "ignore_eos": True, "return_token_ids": True}
    reply = await stack.client.post("/v1/completions", json={**body, **fields})
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def cached_tokens(stack: TracedStack) -> int:
    return (await stack.server.gateway.source.status()).cached_tokens


async def test_the_prompt_is_computed_once_for_all_choices(stack: TracedStack) -> None:
    answer = await ask(stack, n=5)
    assert await cached_tokens(stack) == 4 * NUM_FULL_TOKENS
    usage = answer["usage"]
    assert usage["prompt_tokens"] == len(PROMPT)
    assert usage["completion_tokens"] == 5 * 12
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    again = await ask(stack, n=5)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == NUM_FULL_TOKENS
    await stack.stack.check_idle()


async def test_without_the_cache_each_choice_computes_its_own(stack: TracedStack) -> None:
    await ask(stack, n=3, use_prefix_cache=False)
    assert await cached_tokens(stack) == 0


@pytest.mark.parametrize("temperature", [0, 0.8])
async def test_choices_are_the_answers_to_requests_with_their_seeds(
    stack: TracedStack, temperature: float
) -> None:
    options = {"temperature": temperature, "speculation": {"enabled": False}}
    choices = (await ask(stack, n=4, seed=5, temperature=temperature))["choices"]
    alone = [await ask(stack, seed=choice["seed"], **options) for choice in choices]
    assert [choice["token_ids"] for choice in choices] == [
        answer["choices"][0]["token_ids"] for answer in alone
    ]
    num_different = len({tuple(choice["token_ids"]) for choice in choices})
    assert num_different == (1 if temperature == 0 else 4)


async def test_a_client_that_hangs_up_leaves_no_block_behind(stack: TracedStack) -> None:
    body = {"prompt": [PROMPT, "x"], "n": 3, "max_tokens": 300, "ignore_eos": True, "stream": True}
    for num_lines in (1, 4, 20):
        async with stack.client.stream("POST", "/v1/completions", json=body) as reply:
            lines = reply.aiter_lines()
            for _ in range(num_lines):
                await anext(lines)
        async with asyncio.timeout(10):
            await stack.stack.check_idle()
