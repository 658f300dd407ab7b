"""From what a client asks to the events of all its choices, for both fronts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from dspark.errors import RateLimited
from dspark.gateway.admission import Admission, Admitted
from dspark.gateway.caller import current_caller
from dspark.gateway.choice_streams import ChoiceEvent, ChoiceStream, interleaved
from dspark.gateway.choices import check_choices, choice_requests
from dspark.gateway.client_request import ClientRequest
from dspark.gateway.generation import GenerationService
from dspark.gateway.key_budgets import KeyBudgets, Spend
from dspark.gateway.lifecycle import Lifecycle
from dspark.gateway.request_books import RequestBooks
from dspark.gateway.request_trace import current_trace
from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.token_source import GenerationRequest


class Answers:
    """Admits requests, starts their choices, and holds API keys to their limits."""

    def __init__(
        self,
        admission: Admission,
        generation: GenerationService,
        lifecycle: Lifecycle,
        books: RequestBooks,
        max_choices: int,
    ) -> None:
        self._admission = admission
        self._generation = generation
        self._lifecycle = lifecycle
        self._books = books
        self._max_choices = max_choices
        self._budgets = KeyBudgets()

    async def run(
        self, clients: Sequence[ClientRequest], n: int = 1, field: str = "n"
    ) -> AsyncGenerator[ChoiceEvent, None]:
        """``n`` choices of each client request, which differ in nothing but their prompts.

        Of each choice Started comes first and Completed last. Closing or cancelling the iterator
        aborts all of them. Raises DSparkError, in which ``field`` is the client's name for ``n``.
        """
        self._lifecycle.check_accepting()
        check_choices(len(clients), n, self._max_choices, field)
        with self._held(len(clients) * n) as spend:
            admitted = [await self._admitted(client) for client in clients]
            spend(sum(len(each.request.prompt_token_ids) for each in admitted))
            requests = choice_requests([each.request for each in admitted], n)
            if (trace := current_trace()) is not None:
                trace.choices(len(requests))
            eos_token_ids = admitted[0].info.eos_token_ids
            async with aclosing(self._events(requests, n, eos_token_ids)) as events:
                async for item in events:
                    if isinstance(item.event, TextChunk):
                        spend(len(item.event.token_ids))
                    yield item

    async def _admitted(self, client: ClientRequest) -> Admitted:
        # Each prompt takes a moment, and a request may have many.
        await asyncio.sleep(0)
        return await self._admission.admit(client)

    @contextmanager
    def _held(self, num_choices: int) -> Iterator[Spend]:
        try:
            with self._budgets.held(current_caller(), num_choices) as spend:
                yield spend
        except RateLimited as error:
            self._books.key_refusals[error.metadata["limit"]] += 1
            raise

    async def _events(
        self, requests: Sequence[GenerationRequest], n: int, eos_token_ids: frozenset[int]
    ) -> AsyncGenerator[ChoiceEvent, None]:
        runs = [self._generation.run(request, eos_token_ids) for request in requests]
        if len(runs) == 1:
            async with aclosing(runs[0]) as events:
                async for event in events:
                    yield ChoiceEvent(0, event)
            return
        does_share = n > 1 and requests[0].use_prefix_cache
        computed = [asyncio.Event() for _ in runs]
        streams = [
            ChoiceStream(
                run,
                after=computed[index - index % n] if does_share and index % n else None,
                computed=computed[index],
            )
            for index, run in enumerate(runs)
        ]
        async with aclosing(interleaved(streams)) as merged:
            async for item in merged:
                yield item
