"""The sync client and its streams against a real gateway with a scripted scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dspark.client import Client, FinishReason
from dspark.client.event_loop import BackgroundLoop
from dspark.errors import DeadlineExceeded, InvalidArgument
from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import MODEL, GatewayStack, gateway_stack

SCRIPTS = {
    "short": Script(runs_of("Hello.", 2)),
    "endless": Script(runs_of("ab"), repeat=True, delay_s=0.02),
}


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop.acquire()
    yield loop
    loop.release()


@pytest.fixture
def stack(loop: BackgroundLoop, tmp_path: Path) -> Iterator[GatewayStack]:
    """The prompt of a request names its script."""
    fake = FakeScheduler(lambda request: SCRIPTS[bytes(request.prompt_token_ids).decode()])
    running = gateway_stack(tmp_path, fake)
    yield loop.run(running.__aenter__())
    loop.run(running.__aexit__(None, None, None))


@pytest.fixture
def client(stack: GatewayStack) -> Iterator[Client]:
    with Client(stack.grpc_target) as client:
        yield client


def test_generate(client: Client) -> None:
    completion = client.generate("short", max_tokens=6)
    assert (completion.text, completion.finish_reason) == ("Hello.", FinishReason.LENGTH)


def test_stream(client: Client) -> None:
    stream = client.stream("short", max_tokens=64)
    assert "".join(chunk.text for chunk in stream) == "Hello."
    assert stream.completion.text == "Hello."
    assert next(stream, None) is None


def test_break_cancels(client: Client, stack: GatewayStack, loop: BackgroundLoop) -> None:
    for _ in client.stream("endless", max_tokens=100):
        break
    assert loop.run(stack.scheduler.wait_cancelled())


def test_leaving_the_context_cancels(
    client: Client, stack: GatewayStack, loop: BackgroundLoop
) -> None:
    with client.stream("endless", max_tokens=100) as stream:
        assert next(stream).text == "a"
    assert loop.run(stack.scheduler.wait_cancelled())
    assert list(stream) == []


def test_errors_and_deadlines(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="top_p"):
        client.generate("short", top_p=7.0)
    with pytest.raises(InvalidArgument, match="top_k"):
        client.stream("short", top_k=-2)
    with pytest.raises(DeadlineExceeded):
        client.generate("endless", max_tokens=100, timeout=0.2)


def test_threads_share_a_client(client: Client) -> None:
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda _: client.generate("short", max_tokens=9).text, range(12)))
    assert texts == ["Hello."] * 12


def test_models_readiness_and_close(client: Client) -> None:
    assert client.is_ready()
    assert [model.id for model in client.models()] == [MODEL]
    client.close()
    client.close()
