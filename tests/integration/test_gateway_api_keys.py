"""API keys at the gateway, over HTTP and gRPC."""

from __future__ import annotations

import datetime
import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dspark.client import AsyncClient
from dspark.errors import DSparkError, InvalidArgument, Unauthenticated
from dspark.gateway import resumption
from dspark.gateway.api_keys import digest_of, draw_key
from harness.fake_scheduler import FakeScheduler
from harness.gateway_stack import GatewayStack, gateway_stack

GOOD, OLD, OTHER, WRONG = (draw_key() for _ in range(4))
PAST = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)).isoformat()


def line(name: str, key: str, **more: str) -> str:
    return json.dumps({"name": name, "sha256": digest_of(key).hex(), **more}) + "\n"


def write(path: Path, *lines: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(lines))
    os.replace(fresh, path)


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    write(path, "# made for tests\n\n", line("good", GOOD), line("old", OLD, expires=PAST))
    return path


@pytest.fixture
async def stack(tmp_path: Path, keys_file: Path) -> AsyncIterator[GatewayStack]:
    async with gateway_stack(tmp_path, api_keys_file=str(keys_file)) as stack:
        yield stack


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def post(stack: GatewayStack, headers: Any) -> httpx.Response:
    return await stack.client.post("/v1/completions", json={"prompt": "hi"}, headers=headers)


REFUSALS: dict[str, tuple[Any, str]] = {
    "none": ({}, "no API key was sent"),
    "empty": ({"Authorization": ""}, "no API key was sent"),
    "basic": ({"Authorization": f"Basic {GOOD}"}, "must be: Bearer KEY"),
    "bare": ({"Authorization": GOOD}, "must be: Bearer KEY"),
    "wrong": (bearer(WRONG), "is not valid"),
    "cut": (bearer(GOOD[:-1]), "is not valid"),
    "the hash": (bearer(digest_of(GOOD).hex()), "is not valid"),
    "not ascii": ({"Authorization": f"Bearer {GOOD}é".encode("latin-1")}, "is not valid"),
    "expired": (bearer(OLD), "'old' expired at"),
    "twice": ([("Authorization", f"Bearer {GOOD}")] * 2, "no API key was sent"),
}


@pytest.mark.parametrize(("headers", "problem"), REFUSALS.values(), ids=REFUSALS)
async def test_http_without_a_good_key_is_401(
    stack: GatewayStack, headers: Any, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(3):
        response = await post(stack, headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.headers["x-request-id"]
        error = response.json()["error"]
        assert problem in error["message"]
        assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
    assert len([r for r in caplog.records if problem in r.message]) == 1
    for key in (GOOD, OLD, WRONG):
        assert key[8:20] not in caplog.text + response.text
    assert not stack.scheduler.requests


async def test_what_needs_a_key(stack: GatewayStack) -> None:
    paths = ("/v1/models", "/version", "/docs", "/openapi.json", "/nothing", "/health/", "//health")
    for path in paths:
        assert (await stack.client.get(path)).status_code == 401, path
    for path in ("/health", "/ready", "/metrics"):
        assert (await stack.client.get(path)).status_code == 200, path
    assert (await stack.client.get("/v1/models", headers=bearer(GOOD))).status_code == 200
    assert (await stack.client.get("/nothing", headers=bearer(GOOD))).status_code == 404


async def test_metrics_can_need_a_key_too(tmp_path: Path, keys_file: Path) -> None:
    async with gateway_stack(
        tmp_path, api_keys_file=str(keys_file), metrics_need_key=True
    ) as stack:
        assert (await stack.client.get("/metrics")).status_code == 401
        assert (await stack.client.get("/metrics", headers=bearer(GOOD))).status_code == 200


async def test_a_large_body_without_a_key_is_not_read(stack: GatewayStack) -> None:
    response = await stack.client.post("/v1/completions", content=b"x" * 20_000_000)
    assert response.status_code == 401


async def test_the_tenant_of_the_key_separates_caches(stack: GatewayStack, keys_file: Path) -> None:
    body = {"prompt": "hi", "cache_salt": "s"}
    await stack.client.post("/v1/completions", json=body, headers=bearer(GOOD))
    await post(stack, bearer(GOOD))
    async with AsyncClient(stack.grpc_target, api_key=GOOD) as client:
        await client.generate("hi", cache_salt="s")
    salts = [request.cache_salt for request in stack.scheduler.requests]
    assert salts == ["good/s", "good/", "good/s"]


async def test_grpc_needs_a_key(stack: GatewayStack, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, problem in (("", "no API key"), (WRONG, "not valid"), (OLD, "expired at")):
        async with AsyncClient(stack.grpc_target, api_key=key) as client:
            assert await client.is_ready(timeout=10)
            with pytest.raises(Unauthenticated, match=problem):
                await client.generate("hi")
            with pytest.raises(Unauthenticated, match=problem):
                await client.models()
    monkeypatch.setenv("DSPARK_API_KEY", GOOD)
    async with AsyncClient(stack.grpc_target) as client:
        assert (await client.generate("hi")).text
        assert await client.models()


async def test_a_key_that_cannot_be_sent_is_an_error_without_the_key() -> None:
    for key in ("with space", "with\nbreak", "with-é"):
        with pytest.raises(InvalidArgument) as caught:
            AsyncClient("127.0.0.1:1", api_key=key)
        assert caught.value.field == "api_key"
        assert key not in caught.value.message


async def test_keys_change_without_a_restart(
    tmp_path: Path, keys_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with gateway_stack(tmp_path, api_keys_file=str(keys_file)) as stack:
        # A test need not wait for the second that passes between two looks at the file.
        stack.server.gateway.api_keys._watched._check_s = 0.0  # type: ignore[union-attr]
        stack.server.gateway.api_keys._watched._next_check_at = 0.0  # type: ignore[union-attr]
        write(keys_file, line("good", GOOD), line("other", OTHER))
        assert (await post(stack, bearer(OTHER))).status_code == 200
        keys_file.write_text(line("good", GOOD) + line("other", OTHER)[:30])
        for _ in range(2):
            assert (await post(stack, bearer(OTHER))).status_code == 200
        write(keys_file, line("good", GOOD))
        assert (await post(stack, bearer(OTHER))).status_code == 401
        assert (await post(stack, bearer(GOOD))).status_code == 200
    assert len([r for r in caplog.records if r.levelname == "ERROR"]) == 1
    assert "line 2 is no JSON object" in caplog.text


async def test_no_request_is_told_what_services_say_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "FIRST_PATIENCE_S", 0.1)
    scheduler = FakeScheduler()
    async with gateway_stack(tmp_path, scheduler) as stack:
        await scheduler.stop()
        await stack.server.gateway.monitor.refresh()
        answers = [(await stack.client.get("/ready")).text]
        async with AsyncClient(stack.grpc_target) as client:
            for call in (lambda: post(stack, {}), lambda: client.generate("hi", timeout=30)):
                try:
                    answers.append((await call()).text)
                except DSparkError as error:
                    answers.append(error.message)
    port = scheduler.target.rpartition(":")[2]
    assert len(answers) == 3
    for text in answers:
        assert "does not answer" in text
        assert port not in text
        assert "connect" not in text
