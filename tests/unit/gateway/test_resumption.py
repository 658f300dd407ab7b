"""A lost scheduler is a pause, and the tokens go on where they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from dspark.errors import (
    BackendUnavailable,
    Draining,
    DSparkError,
    DuplicateRequest,
    InternalError,
    NotReady,
    QueueFull,
)
from dspark.gateway import resumption
from dspark.gateway.resumption import resumed_stream
from dspark.gateway.token_source import GenerationRequest
from dspark.generation import StreamEvent, TokenChunk, TokensComplete
from dspark.logprobs import TokenLogprobs
from dspark.sampling import FinishReason, SamplingParams, SpeculationStats, StepBreakdown, Usage

TOKENS = (5, 6, 7, 8, 9, 10)
LOST = BackendUnavailable("scheduler", "UNAVAILABLE: gone")
REQUEST = GenerationRequest("r", (1, 2), SamplingParams(max_tokens=len(TOKENS)))


@dataclass
class FlakySource:
    """Goes on after the committed tokens; each loss is (tokens given before it, the error)."""

    losses: Sequence[tuple[int, DSparkError]]
    requests: list[GenerationRequest] = field(default_factory=list)

    async def generate(
        self, request: GenerationRequest, timeout_s: float | None
    ) -> AsyncGenerator[StreamEvent, None]:
        attempt = len(self.requests)
        self.requests.append(request)
        done = len(request.committed_token_ids)
        for index, token in enumerate(TOKENS[done:]):
            if attempt < len(self.losses) and index == self.losses[attempt][0]:
                raise self.losses[attempt][1]
            yield TokenChunk((token,))
        if attempt < len(self.losses):
            raise self.losses[attempt][1]
        usage = Usage(2, len(TOKENS))
        yield TokensComplete(FinishReason.LENGTH, None, usage, SpeculationStats(), StepBreakdown())


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumption, "_PAUSE_S", 0.0)


async def collect(
    source: FlakySource, request: GenerationRequest = REQUEST, ends: frozenset[int] = frozenset()
) -> tuple[tuple[int, ...], TokensComplete]:
    events = [event async for event in resumed_stream(source, request, ends, 10.0)]
    *chunks, end = events
    assert isinstance(end, TokensComplete)
    return tuple(token for chunk in chunks for token in chunk.token_ids), end  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "losses",
    [
        [],
        [(1, LOST)],
        [(3, LOST), (0, LOST), (0, Draining("starting")), (2, LOST)],
        [(2, LOST), (0, DuplicateRequest("r"))],
        [(2, LOST), (0, QueueFull("full"))],
        [(0, LOST)],
        [(0, LOST), (0, DuplicateRequest("r")), (0, LOST), (0, NotReady("starting"))],
        [(0, Draining("stopping")), (0, LOST), (2, LOST)],
    ],
)
async def test_no_token_is_lost_or_repeated(losses: list[tuple[int, DSparkError]]) -> None:
    source = FlakySource(losses)
    tokens, end = await collect(source)
    assert tokens == TOKENS
    assert end.usage == Usage(2, len(TOKENS))
    assert len(source.requests) == len(losses) + 1


async def test_the_arithmetic_that_began_a_stream_is_asked_for_again() -> None:
    asked: list[str] = []

    class Changing(FlakySource):
        async def generate(
            self, request: GenerationRequest, timeout_s: float | None
        ) -> AsyncGenerator[StreamEvent, None]:
            asked.append(request.arithmetic)
            first = TokenChunk((TOKENS[len(request.committed_token_ids)],), 0, f"v{len(asked)}")
            yield first
            raise LOST

    await collect(Changing([]))
    assert asked == ["", *["v1"] * (len(TOKENS) - 1)]


@pytest.mark.parametrize("error", [NotReady("starting"), DuplicateRequest("r")])
async def test_to_a_first_try_what_a_scheduler_answers_is_no_loss(error: DSparkError) -> None:
    source = FlakySource([(0, error)])
    with pytest.raises(type(error)):
        await collect(source)
    assert len(source.requests) == 1


async def test_before_the_first_token_a_full_queue_is_an_answer_also_after_a_loss() -> None:
    source = FlakySource([(0, LOST), (0, QueueFull("full"))])
    with pytest.raises(QueueFull):
        await collect(source)


@pytest.mark.parametrize("num_tokens", [0, 2])
async def test_a_scheduler_without_a_verifier_is_a_loss(num_tokens: int) -> None:
    source = FlakySource([(num_tokens, BackendUnavailable("verifier", "does not answer"))])
    tokens, _ = await collect(source)
    assert tokens == TOKENS
    assert len(source.requests) == 2


@pytest.mark.parametrize("error", [QueueFull("full"), InternalError("bug")])
async def test_what_a_scheduler_says_itself_is_no_loss(error: DSparkError) -> None:
    source = FlakySource([(2, error)])
    with pytest.raises(type(error)):
        await collect(source)
    assert len(source.requests) == 1


@pytest.mark.parametrize(("num_tokens", "bound"), [(0, "FIRST_PATIENCE_S"), (2, "PATIENCE_S")])
async def test_patience_ends_with_the_loss(
    monkeypatch: pytest.MonkeyPatch, num_tokens: int, bound: str
) -> None:
    monkeypatch.setattr(resumption, bound, 0.02)
    source = FlakySource([(num_tokens, LOST), *[(0, DuplicateRequest("r"))] * 100_000])
    with pytest.raises(BackendUnavailable):
        await collect(source)
    assert len(source.requests) > 1


async def test_a_wait_for_the_first_token_can_be_cancelled() -> None:
    source = FlakySource([(0, LOST)] * 1_000_000)
    waiting = asyncio.create_task(collect(source))
    while len(source.requests) < 3:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    num_requests = len(source.requests)
    await asyncio.sleep(0.01)
    assert len(source.requests) == num_requests


async def test_a_lost_end_is_made_up_and_no_token_more() -> None:
    source = FlakySource([(len(TOKENS), LOST)])
    tokens, end = await collect(source)
    assert (tokens, end.finish_reason) == (TOKENS, FinishReason.LENGTH)
    assert len(source.requests) == 1


async def test_a_lost_end_after_a_stop_token_names_it() -> None:
    source = FlakySource([(2, LOST)])
    tokens, end = await collect(source, ends=frozenset({TOKENS[1]}))
    assert tokens == TOKENS[:2]
    assert (end.finish_reason, end.stop_token_id) == (FinishReason.STOP, TOKENS[1])
    assert end.usage.completion_tokens == 2


async def test_logprobs_go_on_where_the_tokens_do() -> None:
    class Telling(FlakySource):
        async def generate(
            self, request: GenerationRequest, timeout_s: float | None
        ) -> AsyncGenerator[StreamEvent, None]:
            async for event in super().generate(request, timeout_s):
                if isinstance(event, TokenChunk):
                    told = tuple(TokenLogprobs(-float(token), 1) for token in event.token_ids)
                    event = replace(event, logprobs=told)
                yield event

    source = Telling([(2, LOST), (1, LOST)])
    request = replace(REQUEST, sampling=replace(REQUEST.sampling, logprobs=0, min_tokens=4))
    events = [event async for event in resumed_stream(source, request, frozenset(), 10.0)]
    told = [each for event in events[:-1] for each in event.logprobs]  # type: ignore[union-attr]
    assert [-each.logprob for each in told] == list(TOKENS)
    assert [r.committed_token_ids for r in source.requests] == [(), TOKENS[:2], TOKENS[:3]]
    assert {r.sampling for r in source.requests} == {request.sampling}
