"""Several schedulers as one source of tokens: a request goes to the least busy that answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from dspark.errors import (
    BackendUnavailable,
    DSparkError,
    DuplicateRequest,
    NotReady,
    UnknownRequest,
)
from dspark.gateway.steady_counts import SteadyCounts
from dspark.gateway.token_source import (
    SCHEDULER,
    GenerationRequest,
    SchedulerInfo,
    SchedulerStatus,
    TokenSource,
)
from dspark.generation import StreamEvent

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

# A scheduler that is this long without an answer keeps no request that another one can go on with.
SILENCE_S = 5.0


class SchedulerConnection(TokenSource, Protocol):
    """A TokenSource that can be closed, or made to fail all its streams at once."""

    def abandon(self) -> None: ...
    async def close(self) -> None: ...


@dataclass(eq=False, slots=True)
class _Member:
    source: SchedulerConnection
    answers: bool = True
    silent_since: float | None = None
    request_ids: set[str] = field(default_factory=set)
    # questions that it has not answered yet
    num_asked: int = 0

    @property
    def is_in_use(self) -> bool:
        return bool(self.request_ids or self.num_asked)


class SchedulerPool:
    """``addresses`` yields the present schedulers again and again; ``connect`` opens one.

    A scheduler that fails is left alone until ``info``, which is asked once a second, finds it
    answering; when none answers, requests go to any, as they would to a single one.
    """

    def __init__(
        self,
        addresses: Callable[[], AsyncIterator[Collection[str]]],
        connect: Callable[[str], SchedulerConnection],
    ) -> None:
        self._addresses = addresses
        self._connect = connect
        self._members: dict[str, _Member] = {}
        self._counts: SteadyCounts[_Member] = SteadyCounts()
        # no address names these any more; they are closed when their last call has ended
        self._leaving: list[_Member] = []

    async def run(self) -> None:
        """Follow the addresses until cancelled."""
        async for names in self._addresses():
            await self._follow(names)

    async def close(self) -> None:
        for member in (*self._members.values(), *self._leaving):
            await member.source.close()

    async def generate(
        self, request: GenerationRequest, timeout_s: float | None
    ) -> AsyncGenerator[StreamEvent, None]:
        if self._member_with(request.request_id) is not None:
            # Another scheduler would take it, and both would hold it on one verifier.
            raise DuplicateRequest(request.request_id)
        member = self._member_with(request.beside) or self._choose()
        member.request_ids.add(request.request_id)
        try:
            async with aclosing(member.source.generate(request, timeout_s)) as stream:
                async for event in stream:
                    yield event
        except (BackendUnavailable, NotReady):
            member.answers = False
            raise
        finally:
            member.request_ids.discard(request.request_id)

    async def stop(self, request_id: str) -> None:
        member = self._member_with(request_id)
        if member is None:
            raise UnknownRequest(request_id)
        await member.source.stop(request_id)

    async def info(self) -> SchedulerInfo:
        """Of the first that answers; raises what the first raised if none does."""
        answers = await self._ask_all(lambda source: source.info())
        good = _good(answers.values())
        for member, answer in answers.items():
            self._hear(member, answers=not isinstance(answer, DSparkError))
        return good[0]

    async def status(self) -> SchedulerStatus:
        """The sum over all; raises what the first raised if none answers."""
        answers = await self._ask_all(lambda source: source.status())
        _good(answers.values())
        good = {m: answer for m, answer in answers.items() if not isinstance(answer, DSparkError)}
        return self._counts.total(good, present=answers)

    async def _ask_all(
        self, ask: Callable[[TokenSource], Awaitable[Answer]]
    ) -> dict[_Member, Answer | DSparkError]:
        members = list(self._members.values())
        for member in members:
            member.num_asked += 1
        try:
            answers = await asyncio.gather(*(_answer(ask(member.source)) for member in members))
        finally:
            for member in members:
                member.num_asked -= 1
        return dict(zip(members, answers, strict=True))

    def _hear(self, member: _Member, *, answers: bool) -> None:
        """Note what a member said while another one, or it itself, answers."""
        member.answers = answers
        now = time.monotonic()
        if answers:
            member.silent_since = None
        elif member.silent_since is None:
            member.silent_since = now
        elif now - member.silent_since > SILENCE_S and member.request_ids:
            log.warning("%d requests leave a silent scheduler", len(member.request_ids))
            member.source.abandon()

    def _member_with(self, request_id: str) -> _Member | None:
        members = (*self._members.values(), *self._leaving)
        return next((m for m in members if request_id in m.request_ids), None)

    def _choose(self) -> _Member:
        members = list(self._members.values())
        if not members:
            raise _nobody()
        answering = [member for member in members if member.answers] or members
        return min(answering, key=lambda member: len(member.request_ids))

    async def _follow(self, names: Collection[str]) -> None:
        for name in names:
            if name not in self._members:
                self._members[name] = _Member(self._connect(name))
        gone = [name for name in self._members if name not in names]
        self._leaving += [self._members.pop(name) for name in gone]
        for member in [member for member in self._leaving if not member.is_in_use]:
            self._leaving.remove(member)
            await member.source.close()


async def _answer(call: Awaitable[Answer]) -> Answer | DSparkError:
    try:
        return await call
    except DSparkError as error:
        return error


def _good(answers: Collection[Answer | DSparkError]) -> list[Answer]:
    good = [answer for answer in answers if not isinstance(answer, DSparkError)]
    if not good:
        raise next((a for a in answers if isinstance(a, DSparkError)), _nobody())
    return good


def _nobody() -> DSparkError:
    return BackendUnavailable(SCHEDULER, "no address of one is known")
