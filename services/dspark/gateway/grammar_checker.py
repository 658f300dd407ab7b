"""Tells whether a structured output can be honoured, by a process that may die of it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import OrderedDict
from pathlib import Path

from dspark.errors import InternalError, Overloaded
from dspark.gateway.grammar_worker import MAX_CPU_S, output_to_line
from dspark.gateway.worker_starts import MAX_STARTS
from dspark.structured_output import StructuredOutput

log = logging.getLogger(__name__)

# For a worker that waits for a processor all the time.
_PATIENCE_S = 20.0
_START_S = 60.0
MAX_WAITING = 32
MAX_KNOWN = 4096
TOO_SLOW = f"takes more than {MAX_CPU_S:g} s of a processor to compile"
TOO_LARGE = "is too deep or too large to compile"


class GrammarChecker:
    """Asks one worker process, which is started when it is needed, and remembers its answers."""

    def __init__(self, tokenizer_file: Path) -> None:
        self._tokenizer_file = tokenizer_file
        self._worker: Process | None = None
        self._turn = asyncio.Lock()
        # digest of the output to its problem
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._asking: set[asyncio.Task[str]] = set()

    @property
    def worker_id(self) -> int | None:
        """The process of the worker, while there is one."""
        return None if self._worker is None else self._worker.pid

    @property
    def num_waiting(self) -> int:
        """Outputs whose answer is not known yet."""
        return len(self._asking)

    async def problem_of(self, output: StructuredOutput) -> str:
        """Why the output cannot be honoured; empty if it can. Raises Overloaded."""
        line = output_to_line(output)
        digest = hashlib.blake2b(line, digest_size=16).digest()
        known = self._known.get(digest)
        if known is not None:
            self._known.move_to_end(digest)
            return known
        if self.num_waiting >= MAX_WAITING:
            raise Overloaded("too many schemas and grammars wait to be compiled").retry_in(1)
        asking = asyncio.create_task(self._ask(line, digest))
        self._asking.add(asking)
        asking.add_done_callback(self._answered)
        # A caller that goes away must not leave half a conversation behind.
        return await asyncio.shield(asking)

    async def close(self) -> None:
        """End the worker."""
        for asking in tuple(self._asking):
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        await self._end_worker()

    async def _ask(self, line: bytes, digest: bytes) -> str:
        async with self._turn:
            known = self._known.get(digest)
            problem = await self._answer(line) if known is None else known
        self._known[digest] = problem
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return problem

    def _answered(self, asking: asyncio.Task[str]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            # Its caller may have gone, and nobody else asks for a failure.
            asking.exception()

    async def _answer(self, line: bytes) -> str:
        if self._worker is None and (problem := await self._start_worker()):
            return problem
        assert self._worker is not None and self._worker.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._worker.stdin.write(line)
            await self._worker.stdin.drain()
        reply = await self._read(_PATIENCE_S)
        return _cause_of(await self._end_worker()) if reply is None else reply

    async def _start_worker(self) -> str:
        """What is wrong with the tokenizer; raises InternalError for a worker that ends at once."""
        module = "dspark.gateway.grammar_worker"
        arguments = [sys.executable, "-m", module, str(self._tokenizer_file)]
        for _ in range(MAX_STARTS):
            self._worker = await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE)
            problem = await self._read(_START_S)
            if problem:
                await self._end_worker()
            if problem is not None:
                return problem
            code = await self._end_worker()
            log.error("the process that compiles grammars did not start: it ended with %d", code)
        raise InternalError("structured outputs cannot be checked now")

    async def _read(self, timeout_s: float) -> str | None:
        """The worker's next line; None if it does not come."""
        assert self._worker is not None and self._worker.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._worker.stdout.readline()
        except TimeoutError:
            return None
        return str(json.loads(line)) if line else None

    async def _end_worker(self) -> int:
        """Its return code."""
        worker, self._worker = self._worker, None
        if worker is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        return await worker.wait()


def _cause_of(return_code: int) -> str:
    return TOO_SLOW if return_code in (-signal.SIGPROF, -signal.SIGKILL) else TOO_LARGE
