"""Many requests: in order, a limited number at a time, ended by the first that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dspark.client import ClientClosed
from dspark.errors import InvalidArgument
from dspark.llm import PromptFailed, RequestOutput, SamplingParams
from dspark.llm.batch import run_batch
from dspark.llm.request import OfflineRequest


def requests(choices: Sequence[int]) -> list[OfflineRequest]:
    """One for each number of choices, whose prompt is its index."""
    return [OfflineRequest((i,), SamplingParams(n=n)) for i, n in enumerate(choices)]


def output(request: OfflineRequest) -> RequestOutput:
    return RequestOutput(f"r{request.prompt[0]}", None, (), None, (), 0)


class Server:
    """Answers each request when it is told to; keeps how many choices were in flight."""

    def __init__(self) -> None:
        self.running: list[int] = []
        self.cancelled: list[int] = []
        self.most_choices = self._num_choices = 0
        self.ends: dict[int, asyncio.Future[None]] = {}

    async def ask(self, request: OfflineRequest) -> RequestOutput:
        index = int(request.prompt[0])  # type: ignore[call-overload]
        self.running.append(index)
        self._num_choices += request.params.n
        self.most_choices = max(self.most_choices, self._num_choices)
        self.ends[index] = asyncio.get_running_loop().create_future()
        try:
            await self.ends[index]
            return output(request)
        except asyncio.CancelledError:
            self.cancelled.append(index)
            raise
        finally:
            self._num_choices -= request.params.n
            self.running.remove(index)

    async def end(self, index: int, error: Exception | None = None) -> None:
        end = self.ends[index]
        end.set_result(None) if error is None else end.set_exception(error)
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def started(
    server: Server, choices: Sequence[int], max_choices: int, done: list[str]
) -> asyncio.Task[list[RequestOutput]]:
    task = asyncio.create_task(
        run_batch(
            requests(choices), server.ask, max_choices, lambda each: done.append(each.request_id)
        )
    )
    await settled()
    return task


async def test_outputs_come_in_the_order_of_the_prompts() -> None:
    server, done = Server(), list[str]()
    task = await started(server, [1, 1, 1], 8, done)
    assert server.running == [0, 1, 2]
    for index in (2, 0, 1):
        await server.end(index)
    assert [each.request_id for each in await task] == ["r0", "r1", "r2"]
    assert done == ["r2", "r0", "r1"]


async def test_so_many_choices_are_in_flight() -> None:
    server = Server()
    task = await started(server, [2, 2, 1, 9, 1], 4, [])
    assert server.running == [0, 1]
    await server.end(1)
    assert server.running == [0, 2]
    await server.end(2)
    assert server.running == [0]
    # More choices than there may ever be go alone.
    await server.end(0)
    assert server.running == [3]
    await server.end(3)
    await server.end(4)
    assert len(await task) == 5


async def test_a_prompt_that_fails_is_named_and_ends_the_others() -> None:
    server = Server()
    task = await started(server, [1, 1, 1, 1], 3, [])
    error = InvalidArgument("top_p", "is wrong")
    await server.end(1, error)
    with pytest.raises(PromptFailed, match=r"^prompts\[1\]: top_p: is wrong$") as caught:
        await task
    assert (caught.value.index, caught.value.error) == (1, error)
    assert caught.value.__cause__ is error
    assert sorted(server.cancelled) == [0, 2]
    assert 3 not in server.ends


async def test_a_closed_client_is_no_prompts_fault() -> None:
    server = Server()
    task = await started(server, [1], 1, [])
    await server.end(0, ClientClosed())
    with pytest.raises(ClientClosed):
        await task


async def test_cancelling_cancels_all() -> None:
    server = Server()
    task = await started(server, [1, 1, 1], 2, [])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(server.cancelled) == [0, 1]


async def test_no_prompts_have_no_outputs() -> None:
    assert await run_batch([], Server().ask, 4, lambda each: None) == []
