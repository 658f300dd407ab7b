"""Runs many requests, a limited number at a time, and gives their results in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from dspark.client import ClientClosed
from dspark.errors import DSparkError
from dspark.llm.failure import PromptFailed
from dspark.llm.outputs import RequestOutput
from dspark.llm.request import OfflineRequest

Ask = Callable[[OfflineRequest], Awaitable[RequestOutput]]


class Room:
    """Room for so many choices; one task takes it, any give it back."""

    def __init__(self, size: int) -> None:
        self.size = self._free = size
        self._changed = asyncio.Event()

    async def take(self, amount: int) -> None:
        """Wait until there is room; more than there can ever be takes all of it."""
        amount = min(amount, self.size)
        while self._free < amount:
            self._changed.clear()
            await self._changed.wait()
        self._free -= amount

    def give(self, amount: int) -> None:
        """Give back what ``take`` took."""
        self._free += min(amount, self.size)
        self._changed.set()


async def run_batch(
    requests: Sequence[OfflineRequest],
    ask: Ask,
    max_choices: int,
    on_output: Callable[[RequestOutput], None],
) -> list[RequestOutput]:
    """The outputs in the order of the requests, with ``max_choices`` choices in flight.

    Raises PromptFailed for the first that fails, once the others are cancelled.
    """
    outputs: dict[int, RequestOutput] = {}
    room = Room(max_choices)

    async def run(index: int, request: OfflineRequest) -> None:
        try:
            outputs[index] = await ask(request)
            on_output(outputs[index])
        except ClientClosed:
            raise
        except DSparkError as error:
            raise PromptFailed(index, error) from error
        finally:
            room.give(request.params.n)

    try:
        async with asyncio.TaskGroup() as group:
            for index, request in enumerate(requests):
                await room.take(request.params.n)
                group.create_task(run(index, request))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures.exceptions[0].__cause__
    return [outputs[index] for index in range(len(requests))]
