"""AsyncClient against a real gateway with a scripted scheduler."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dspark.client import AsyncClient, FinishReason
from dspark.errors import (
    BackendUnavailable,
    ContextLength,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    ModelNotFound,
    QueueFull,
)
from dspark.sampling import SourceCounts
from harness.byte_tokenizer import byte_tokenizer
from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import MODEL, gateway_stack

ENDLESS = Script(runs_of("ab"), repeat=True, delay_s=0.02)


async def test_a_whole_completion(tmp_path: Path) -> None:
    fake = FakeScheduler(Script(runs_of("Hello, wörld.", 3)))
    async with gateway_stack(tmp_path, fake) as stack, AsyncClient(stack.grpc_target) as client:
        completion = await client.generate("hi", max_tokens=14, seed=7, request_id="mine")
    assert completion.text == "Hello, wörld."
    assert bytes(completion.token_ids) == "Hello, wörld.".encode()
    assert (completion.request_id, completion.model, completion.seed) == ("mine", MODEL, 7)
    assert completion.finish_reason is FinishReason.LENGTH
    assert completion.usage.prompt_tokens == 2
    assert completion.usage.completion_tokens == 14
    assert completion.speculation.rounds == 5
    assert completion.speculation.sources == {"suffix": SourceCounts(18, 9)}
    assert completion.steps.forward_ms == 3.0
    assert completion.ttft_ms > 0
    assert len(completion.itl_ms) == 4


async def test_chunks_come_one_by_one_and_the_stream_knows_the_whole(tmp_path: Path) -> None:
    fake = FakeScheduler(Script(runs_of("abcdef", 2)))
    async with gateway_stack(tmp_path, fake) as stack, AsyncClient(stack.grpc_target) as client:
        async with client.stream("hi", max_tokens=6) as stream:
            with pytest.raises(InternalError):
                _ = stream.completion
            chunks = [chunk async for chunk in stream]
        assert stream.started is not None
        assert stream.started.prompt_tokens == 2
        assert [chunk.text for chunk in chunks] == ["ab", "cd", "ef"]
        assert [chunk.num_accepted for chunk in chunks] == [1, 1, 1]
        assert stream.completion.text == "abcdef"


async def test_prompt_forms_reach_the_scheduler_as_tokens(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path) as stack, AsyncClient(stack.grpc_target) as client:
        await client.generate("hi")
        await client.generate([104, 105])
        await client.generate([{"role": "user", "content": "hi"}])
    end, turn = (byte_tokenizer().token_to_id(name) for name in ("<|end|>", "<|turn|>"))
    chat = [turn, *b"user:hi", end, turn, *b"assistant:"]
    seen = [list(request.prompt_token_ids) for request in stack.scheduler.requests]
    assert seen == [[104, 105], [104, 105], chat]


async def test_the_stop_reason_is_the_string_or_the_token(tmp_path: Path) -> None:
    fake = FakeScheduler(Script(runs_of("one two three")))
    async with gateway_stack(tmp_path, fake) as stack, AsyncClient(stack.grpc_target) as client:
        by_text = await client.generate("x", max_tokens=64, stop="two")
        by_token = await client.generate("x", max_tokens=64, stop_token_ids=[ord("w")])
    assert (by_text.text, by_text.stop_reason) == ("one ", "two")
    assert by_token.stop_reason == ord("w")
    assert by_text.finish_reason is by_token.finish_reason is FinishReason.STOP


async def test_leaving_the_iteration_cancels_the_request(tmp_path: Path) -> None:
    fake = FakeScheduler(ENDLESS)
    async with gateway_stack(tmp_path, fake) as stack, AsyncClient(stack.grpc_target) as client:
        async with client.stream("x", max_tokens=100) as stream:
            async for _ in stream:
                break
        assert await fake.wait_cancelled()
        assert [chunk async for chunk in stream] == []


async def test_a_dropped_iterator_cancels_too(tmp_path: Path) -> None:
    fake = FakeScheduler(ENDLESS)
    async with gateway_stack(tmp_path, fake) as stack, AsyncClient(stack.grpc_target) as client:
        async for _ in client.stream("x", max_tokens=100):
            break
        assert await fake.wait_cancelled()


async def test_cancelling_the_task_cancels_the_request(tmp_path: Path) -> None:
    fake = FakeScheduler(ENDLESS)
    async with gateway_stack(tmp_path, fake) as stack, AsyncClient(stack.grpc_target) as client:
        task = asyncio.create_task(client.generate("x", max_tokens=100))
        while fake.num_sent < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await fake.wait_cancelled()


async def test_a_passed_deadline_raises_and_cancels(tmp_path: Path) -> None:
    fake = FakeScheduler(ENDLESS)
    async with gateway_stack(tmp_path, fake) as stack, AsyncClient(stack.grpc_target) as client:
        with pytest.raises(DeadlineExceeded, match="within its timeout"):
            await client.generate("x", max_tokens=100, timeout=0.2)
        assert await fake.wait_cancelled()


async def test_errors_are_the_classes_that_the_server_raised(tmp_path: Path) -> None:
    full = FakeScheduler(Script(error=QueueFull("too many requests wait")))
    async with gateway_stack(tmp_path, full) as stack, AsyncClient(stack.grpc_target) as client:
        with pytest.raises(InvalidArgument, match="top_p"):
            await client.generate("x", top_p=2.0)
        with pytest.raises(ContextLength) as long:
            await client.generate("x" * 500)
        with pytest.raises(ModelNotFound):
            await client.generate("x", model="other")
        with pytest.raises(QueueFull):
            await client.generate("x")
    assert long.value.metadata["limit"] == "128"


async def test_no_server_is_a_backend_that_does_not_answer() -> None:
    async with AsyncClient("127.0.0.1:1") as client:
        assert not await client.is_ready()
        with pytest.raises(BackendUnavailable):
            await client.generate("x")


async def test_concurrent_streams_share_the_connection(tmp_path: Path) -> None:
    fake = FakeScheduler(lambda request: Script(runs_of(bytes(request.prompt_token_ids))))
    async with gateway_stack(tmp_path, fake) as stack, AsyncClient(stack.grpc_target) as client:
        words = [f"word {i}" for i in range(20)]
        completions = await asyncio.gather(
            *(client.generate(word, max_tokens=20) for word in words)
        )
    assert [completion.text for completion in completions] == words


async def test_models_and_readiness(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path) as stack, AsyncClient(stack.grpc_target) as client:
        assert await client.is_ready()
        (model,) = await client.models()
    assert (model.id, model.max_model_len, model.exactness) == (MODEL, 128, "strict")
    assert model.sources == ("recycle", "suffix", "retrieval")
