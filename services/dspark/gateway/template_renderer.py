"""Renders chat templates away from the event loop, a few at a time, each within limits."""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from dspark.errors import InvalidArgument
from dspark.gateway.chat_template import TemplateText
from dspark.gateway.template_process import TemplateLimits, TemplateProcess

# One slow template leaves the others to the rest.
NUM_PROCESSES = 4


class Renderer(Protocol):
    """Renders templates. Raises InvalidArgument for what they refuse, or cannot do in time."""

    async def render(self, template: TemplateText, arguments: Mapping[str, Any]) -> str:
        """As ``ChatTemplate.render(**arguments)``; arguments are JSON values."""
        ...

    async def read(self, source: str, tokens: Mapping[str, str]) -> TemplateText:
        """A template that nobody vouches for."""
        ...


class ProcessRenderer:
    """Renders in processes that are started as they are needed, up to ``NUM_PROCESSES``."""

    def __init__(self, limits: TemplateLimits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(NUM_PROCESSES, "templates")
        self._idle: queue.SimpleQueue[TemplateProcess] = queue.SimpleQueue()

    async def render(self, template: TemplateText, arguments: Mapping[str, Any]) -> str:
        job = {"source": template.source, "tokens": template.tokens, "arguments": arguments}
        return str((await self._answer(job))["text"])

    async def read(self, source: str, tokens: Mapping[str, str]) -> TemplateText:
        reply = await self._answer({"source": source, "tokens": tokens})
        return TemplateText(source, tokens, frozenset(reply["variables"]))

    async def _answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._threads, self._exchange, job)
        if "field" in answer:
            raise InvalidArgument(answer["field"], answer["problem"])
        return answer

    def start(self) -> None:
        """Have a process before the first conversation comes."""
        self._threads.submit(self._exchange, {"source": "", "tokens": {}})

    def close(self) -> None:
        """End the processes; renderings under way end by their limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        while (process := self._take()) is not None:
            process.close()

    def _exchange(self, job: Mapping[str, Any]) -> dict[str, Any]:
        try:
            frame = json.dumps(job).encode()
        except RecursionError:
            raise InvalidArgument("messages", "something in them is nested too deeply") from None
        process = self._take() or TemplateProcess(self._limits)
        try:
            reply = process.exchange(frame)
        finally:
            self._idle.put(process)
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def _take(self) -> TemplateProcess | None:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return None
