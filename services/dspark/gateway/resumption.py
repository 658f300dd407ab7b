"""A stream of tokens that outlives the scheduler which began it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Set
from contextlib import aclosing
from dataclasses import replace

from dspark.errors import (
    BackendUnavailable,
    Draining,
    DSparkError,
    DuplicateRequest,
    NotReady,
    Overloaded,
    QueueFull,
)
from dspark.gateway.token_source import GenerationRequest, TokenSource
from dspark.generation import StreamEvent, TokenChunk, TokensComplete
from dspark.sampling import FinishReason, SpeculationStats, StepBreakdown, Usage

PATIENCE_S = 60.0
FIRST_PATIENCE_S = 15.0
_PAUSE_S = 0.25


async def resumed_stream(
    source: TokenSource,
    request: GenerationRequest,
    ends: Set[int],
    timeout_s: float | None,
    on_loss: Callable[[bool], None] = lambda has_begun: None,
) -> AsyncGenerator[StreamEvent, None]:
    """Like ``source.generate``, but a lost scheduler, or one without a verifier, is only a pause.

    The request is sent again with its committed tokens, for up to PATIENCE_S seconds after a loss,
    or FIRST_PATIENCE_S before the first token: that client may still turn to another server.
    Tokens are a function of prompt, parameters and seed, so on a verifier of the same arithmetic
    the next scheduler goes on with the very tokens that the lost one would have given. ``ends`` has
    the token ids that end the request. ``on_loss`` is told of each loss, and whether tokens had
    been streamed.
    """
    start = time.monotonic()
    committed: list[int] = []
    arithmetic = request.arithmetic
    loss: DSparkError | None = None
    give_up_at = 0.0
    while True:
        rest = replace(request, committed_token_ids=tuple(committed), arithmetic=arithmetic)
        remaining_s = None if timeout_s is None else timeout_s - (time.monotonic() - start)
        try:
            async with aclosing(source.generate(rest, remaining_s)) as stream:
                async for event in stream:
                    if isinstance(event, TokenChunk):
                        committed += event.token_ids
                        arithmetic = arithmetic or event.arithmetic
                        loss = None
                    yield event
                return
        except DSparkError as error:
            is_known = bool(committed) or loss is not None
            is_resumed = bool(committed) and loss is not None
            if not _is_loss(error, is_known=is_known, is_resumed=is_resumed):
                raise
            if loss is None:
                loss = error
                on_loss(bool(committed))
                give_up_at = time.monotonic() + (PATIENCE_S if committed else FIRST_PATIENCE_S)
            if time.monotonic() > give_up_at:
                raise loss from error
        if committed and (end := _end_of(request, committed, ends)) is not None:
            yield end
            return
        await asyncio.sleep(_PAUSE_S)


def _is_loss(error: DSparkError, *, is_known: bool, is_resumed: bool) -> bool:
    """Whether another try may find a scheduler that goes on.

    One to which the request ``is_known`` from an earlier try may be starting, or still hold that
    try; to a first try both are an answer. So is a full queue, but not to a request that
    ``is_resumed``, whose client has tokens of it already.
    """
    return (
        isinstance(error, BackendUnavailable | Draining)
        or (is_known and isinstance(error, NotReady | DuplicateRequest))
        or (is_resumed and isinstance(error, QueueFull | Overloaded))
    )


def _end_of(
    request: GenerationRequest, committed: list[int], ends: Set[int]
) -> TokensComplete | None:
    """The end, if the last token was already streamed and only the end itself was lost."""
    usage = Usage(len(request.prompt_token_ids), len(committed))
    if committed[-1] in ends:
        reason, stop_token_id = FinishReason.STOP, committed[-1]
    elif len(committed) >= request.sampling.max_tokens:
        reason, stop_token_id = FinishReason.LENGTH, None
    else:
        return None
    return TokensComplete(reason, stop_token_id, usage, SpeculationStats(), StepBreakdown())
