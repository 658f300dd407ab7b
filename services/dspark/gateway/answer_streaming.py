"""An answer as it goes over HTTP: as a stream of server-sent events, or collected."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from starlette.responses import Response

from dspark.errors import DSparkError, InternalError
from dspark.gateway.choice_streams import ChoiceEvent
from dspark.gateway.event_stream import EventStreamResponse
from dspark.gateway.generation_events import Started

log = logging.getLogger(__name__)

ChoiceEvents = AsyncGenerator[ChoiceEvent, None]


class StreamWriter(Protocol):
    """Puts an answer's events into the words of one surface."""

    def streamed(self, item: ChoiceEvent) -> bytes:
        """What a stream sends of the event; of the last one also the end of the stream."""
        ...

    def broken(self, error: DSparkError) -> bytes:
        """The end of a stream that breaks."""
        ...


async def collected(events: ChoiceEvents) -> list[ChoiceEvent]:
    """All events, in their order."""
    async with aclosing(events):
        return [item async for item in events]


async def streaming(events: ChoiceEvents, writer: StreamWriter) -> Response:
    """Waits for the first tokens, so that a refusal still becomes a status code."""
    head = b""
    try:
        async for item in events:
            head += writer.streamed(item)
            if not isinstance(item.event, Started):
                break
    except BaseException:
        await events.aclose()
        raise
    return EventStreamResponse(_rest(head, events, writer))


async def _rest(
    head: bytes, events: ChoiceEvents, writer: StreamWriter
) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        yield head
        try:
            async for item in events:
                yield writer.streamed(item)
        except DSparkError as error:
            yield writer.broken(error)
        except Exception:
            log.exception("a stream failed")
            yield writer.broken(InternalError())
