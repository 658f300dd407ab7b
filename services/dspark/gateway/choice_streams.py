"""Several choices' events as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from dspark.errors import Draining
from dspark.gateway.generation_events import Completed, Event
from dspark.gateway.request_trace import leave_trace
from dspark.gateway.text_assembly import TextChunk


@dataclass(frozen=True, slots=True)
class ChoiceEvent:
    """What happened to one choice."""

    index: int
    event: Event


@dataclass(frozen=True, slots=True)
class ChoiceStream:
    """The events of one choice, which begins when ``after`` is set; ``computed`` is set by its
    first tokens, for then its prompt's K/V is there to be shared, or by an end without tokens."""

    events: AsyncGenerator[Event, None]
    after: asyncio.Event | None = None
    computed: asyncio.Event | None = None


_Queue = asyncio.Queue[ChoiceEvent | Exception | None]


async def interleaved(streams: Sequence[ChoiceStream]) -> AsyncGenerator[ChoiceEvent, None]:
    """The events of all streams as they come; what one of them raises ends them all.

    Closing or cancelling it closes all of them.
    """
    queue: _Queue = asyncio.Queue()
    # A client that reads slowly holds up the streams, not the memory.
    room = asyncio.Semaphore(len(streams))
    tasks = [
        asyncio.create_task(_pump(index, stream, queue, room))
        for index, stream in enumerate(streams)
    ]
    for task in tasks:
        task.add_done_callback(lambda task: queue.put_nowait(_end_of(task)))
    num_running = len(tasks)
    try:
        while num_running:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                num_running -= 1
                continue
            room.release()
            yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(index: int, stream: ChoiceStream, queue: _Queue, room: asyncio.Semaphore) -> None:
    if index > 0:
        leave_trace()
    if stream.after is not None:
        await stream.after.wait()
    # One begins in each turn of the loop: to send a large request takes milliseconds.
    for _ in range(index):
        await asyncio.sleep(0)
    async with aclosing(stream.events) as events:
        async for event in events:
            await room.acquire()
            queue.put_nowait(ChoiceEvent(index, event))
            if stream.computed is not None and isinstance(event, TextChunk | Completed):
                stream.computed.set()


def _end_of(task: asyncio.Task[None]) -> Exception | None:
    # While the streams are read, only the end of the time to drain cancels one of them.
    if task.cancelled():
        return Draining("the server is shutting down")
    error = task.exception()
    return error if isinstance(error, Exception) else None
