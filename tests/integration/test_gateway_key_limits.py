"""What an API key may use, over HTTP and gRPC, and how its limits change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dspark.cli.__main__ import run
from dspark.client import AsyncClient
from dspark.errors import InvalidArgument, RateLimited
from dspark.gateway.api_keys import ApiKeys, digest_of, draw_key
from dspark.watched_files import CHECK_S
from harness.fake_scheduler import Script, runs_of
from harness.gateway_stack import GatewayStack, gateway_stack

NARROW, METERED, FREE = (draw_key() for _ in range(3))
HANGING = Script(runs_of("a"), hang=True)
REFUSED = 'dspark_gateway_key_refusals_total{limit="%s"}'


def line(name: str, key: str, **limits: int) -> str:
    return json.dumps({"name": name, "sha256": digest_of(key).hex(), **limits}) + "\n"


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    lines = (
        line("narrow", NARROW, max_concurrency=2),
        line("metered", METERED, tokens_per_minute=20),
        line("free", FREE),
    )
    path.write_text("".join(lines))
    return path


@pytest.fixture
async def stack(tmp_path: Path, keys_file: Path) -> AsyncIterator[GatewayStack]:
    async with gateway_stack(tmp_path, api_keys_file=str(keys_file)) as running:
        yield running


async def ask(stack: GatewayStack, key: str, **fields: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    body = {"prompt": "hi", **fields}
    return await stack.client.post("/v1/completions", json=body, headers=headers)


def check_refusal(reply: httpx.Response, problem: str) -> None:
    assert reply.status_code == 429
    assert int(reply.headers["Retry-After"]) >= 1
    error = reply.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert problem in error["message"]


async def test_a_key_runs_no_more_than_it_may(stack: GatewayStack) -> None:
    script = stack.scheduler.script
    stack.scheduler.script = HANGING
    running = [asyncio.create_task(ask(stack, NARROW, max_tokens=5)) for _ in range(2)]
    async with asyncio.timeout(5):
        while len(stack.scheduler.requests) < 2:
            await asyncio.sleep(0.005)
    check_refusal(await ask(stack, NARROW), "may run 2 at a time, and 2 run")
    async with AsyncClient(stack.grpc_target, api_key=NARROW) as client:
        with pytest.raises(RateLimited) as caught:
            await client.generate("hi")
        assert caught.value.retry_after_s == 1
    stack.scheduler.script = script
    assert (await ask(stack, FREE)).status_code == 200
    for task in running:
        task.cancel()
    assert await stack.scheduler.wait_cancelled(5.0, count=2)
    assert (await ask(stack, NARROW, n=2)).status_code == 200
    assert await stack.metric(REFUSED % "max_concurrency") == 2


async def test_each_choice_counts(stack: GatewayStack) -> None:
    reply = await ask(stack, NARROW, n=3)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "n")
    async with AsyncClient(stack.grpc_target, api_key=NARROW) as client:
        with pytest.raises(InvalidArgument, match="n: asks for 3 choices"):
            await client.generate_choices("hi", 3)
    assert stack.scheduler.requests == []


async def test_a_key_waits_once_its_tokens_are_used(stack: GatewayStack) -> None:
    assert (await ask(stack, METERED, prompt="x" * 12)).status_code == 200
    reply = await ask(stack, METERED)
    check_refusal(reply, "may use 20 tokens a minute")
    assert int(reply.headers["Retry-After"]) <= 60
    assert (await ask(stack, FREE, prompt="x" * 100)).status_code == 200
    tokenized = await stack.client.post(
        "/tokenize", json={"prompt": "hi"}, headers={"Authorization": f"Bearer {METERED}"}
    )
    assert tokenized.status_code == 200
    assert await stack.metric(REFUSED % "tokens_per_minute") == 1


async def test_a_refused_request_uses_nothing(stack: GatewayStack) -> None:
    for _ in range(10):
        assert (await ask(stack, METERED, prompt="x" * 200)).status_code == 400
    assert (await ask(stack, METERED)).status_code == 200


async def test_limits_change_without_a_restart(
    stack: GatewayStack, keys_file: Path, tmp_path: Path
) -> None:
    assert (await ask(stack, NARROW, n=3)).status_code == 400
    fresh = tmp_path / "fresh"
    fresh.write_text(line("narrow", NARROW, max_concurrency=3))
    fresh.rename(keys_file)
    async with asyncio.timeout(10 * CHECK_S):
        while (await ask(stack, NARROW, n=3)).status_code != 200:
            await asyncio.sleep(0.05)
    assert (await ask(stack, METERED)).status_code == 401


def test_the_command_makes_a_key_with_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--max-concurrency", "4", "--tokens-per-minute", "60000"]
    assert run(["keys", "create", "--name", "ci", *flags]) == 0
    out, err = capsys.readouterr()
    path = tmp_path / "made"
    path.write_text(out)
    caller = ApiKeys(str(path)).caller_of(f"Bearer {err.rpartition(' ')[2].strip()}", "x")
    assert (caller.limits.max_concurrency, caller.limits.tokens_per_minute) == (4, 60_000)
    assert run(["keys", "create", "--name", "ci", "--max-concurrency", "0"]) == 2
    assert "--max-concurrency" in capsys.readouterr().err
