"""The life of one request in the gateway: scheduler stream in, text events out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from dspark.errors import DSparkError, InternalError, UnknownRequest
from dspark.gateway import request_trace
from dspark.gateway.generation_events import Completed, Event, Started
from dspark.gateway.lifecycle import Lifecycle
from dspark.gateway.parsing.answer_assembly import AnswerAssembler
from dspark.gateway.request_books import RequestBooks, RequestTimer
from dspark.gateway.resumption import resumed_stream
from dspark.gateway.text_assembly import TextAssembler, TextChunk
from dspark.gateway.token_source import GenerationRequest, TokenSource
from dspark.gateway.tokenizer import TextTokenizer
from dspark.generation import StreamEvent, TokensComplete
from dspark.sampling import FinishReason, Usage

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 1.0
Assembler = TextAssembler | AnswerAssembler


class GenerationService:
    """Runs requests for both fronts, HTTP and gRPC."""

    def __init__(
        self,
        source: TokenSource,
        tokenizer: TextTokenizer,
        books: RequestBooks,
        lifecycle: Lifecycle,
        timeout_s: float | None,
    ) -> None:
        self._source = source
        self._tokenizer = tokenizer
        self._books = books
        self._lifecycle = lifecycle
        self._timeout_s = timeout_s

    async def run(
        self, request: GenerationRequest, eos_token_ids: frozenset[int]
    ) -> AsyncGenerator[Event, None]:
        """Started, any number of TextChunk, then exactly one Completed.

        Closing or cancelling the iterator aborts the request at the scheduler. Raises DSparkError.
        """
        timer = self._books.start(len(request.prompt_token_ids), request.sampling.max_tokens)
        outcome = FinishReason.ABORT
        trace = request_trace.current_trace()
        if trace is not None:
            trace.admitted(request)
        try:
            with self._lifecycle.running():
                yield Started(
                    request.request_id,
                    len(request.prompt_token_ids),
                    request.sampling.seed,
                    request.prompt_token_ids,
                )
                async with aclosing(self._text_events(request, eos_token_ids, timer)) as events:
                    async for event in events:
                        if isinstance(event, Completed):
                            outcome, timer.usage = event.finish_reason, event.usage
                        if trace is not None:
                            trace.note(event)
                        yield event
        except Exception as error:
            outcome = FinishReason.ERROR
            known = error if isinstance(error, DSparkError) else InternalError()
            self._books.failures[known.reason] += 1
            request_trace.note_failure(error)
            raise
        finally:
            timer.finish(outcome)
            if trace is not None:
                trace.ended(outcome)

    async def _text_events(
        self, request: GenerationRequest, eos_token_ids: frozenset[int], timer: RequestTimer
    ) -> AsyncGenerator[TextChunk | Completed, None]:
        ends = _end_token_ids(request, eos_token_ids)
        assembler = self._assembler(request, ends)
        resumed = resumed_stream(
            self._source, request, ends, self._timeout_s, self._books.lost_scheduler
        )
        async with aclosing(resumed) as stream:
            async for event in stream:
                if isinstance(event, TokensComplete):
                    timer.times = event.times
                    rest = assembler.last_chunk()
                    if rest.says_something:
                        yield rest
                    yield _completed(request, assembler, event, eos_token_ids)
                    return
                chunk = assembler.push(event)
                timer.observe_tokens(len(chunk.token_ids))
                yield chunk
                if assembler.is_over:
                    report = await self._stop(request, stream)
                    timer.times = None if report is None else report.times
                    yield _stopped(request, assembler, report)
                    return

    def _assembler(self, request: GenerationRequest, ends: frozenset[int]) -> Assembler:
        answer, options = request.answer, request.text
        detokenizer = self._tokenizer.detokenizer(
            request.prompt_token_ids, answer.marks if answer else (), options.keep_special_tokens
        )
        text = TextAssembler(
            detokenizer,
            ends,
            request.stop_strings,
            request.sampling.min_tokens,
            include_stop=options.include_stop,
        )
        return text if answer is None else AnswerAssembler(text, answer, request.request_id)

    async def _stop(
        self, request: GenerationRequest, stream: AsyncGenerator[StreamEvent, None]
    ) -> TokensComplete | None:
        """End the request at the scheduler; its last report, or None if it does not come."""
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                try:
                    await self._source.stop(request.request_id)
                except UnknownRequest:
                    pass  # it ended by itself, so its report is on the way
                async for event in stream:
                    if isinstance(event, TokensComplete):
                        return event
        except (DSparkError, TimeoutError) as error:
            log.warning("no report of %s after its stop string: %s", request.request_id, error)
        return None


def _end_token_ids(request: GenerationRequest, eos_token_ids: frozenset[int]) -> frozenset[int]:
    sampling = request.sampling
    return sampling.stop_token_ids | (frozenset() if sampling.ignore_eos else eos_token_ids)


def _stopped(
    request: GenerationRequest, assembler: Assembler, report: TokensComplete | None
) -> Completed:
    usage = Usage(
        prompt_tokens=len(request.prompt_token_ids),
        completion_tokens=assembler.num_tokens,
        cached_tokens=report.usage.cached_tokens if report else 0,
    )
    return Completed(
        finish_reason=FinishReason.STOP,
        stop_reason=assembler.stop_string,
        usage=usage,
        speculation=report.speculation if report else None,
        steps=report.steps if report else None,
        calls_tools=assembler.has_calls,
        reasoning_tokens=assembler.reasoning_tokens,
    )


def _completed(
    request: GenerationRequest,
    assembler: Assembler,
    end: TokensComplete,
    eos_token_ids: frozenset[int],
) -> Completed:
    if end.finish_reason is FinishReason.ERROR:
        raise InternalError("the scheduler could not finish the request")
    reason, stop_reason = end.finish_reason, end.stop_token_id
    if assembler.stop_string is not None:
        reason, stop_reason = FinishReason.STOP, None
    elif stop_reason in eos_token_ids and stop_reason not in request.sampling.stop_token_ids:
        stop_reason = None
    return Completed(
        reason,
        assembler.stop_string or stop_reason,
        end.usage,
        end.speculation,
        end.steps,
        calls_tools=assembler.has_calls and reason is FinishReason.STOP,
        reasoning_tokens=assembler.reasoning_tokens,
    )
