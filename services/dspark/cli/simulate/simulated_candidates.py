"""A candidates service without sources: it guesses by a model, and takes the time of its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dspark.cli.simulate.candidates_model import CandidatesModel
from dspark.cli.simulate.guesses import Guesses, Place, text_of
from dspark.errors import DeadlineExceeded
from dspark.proposal import (
    CandidatesInfo,
    CandidatesUpdate,
    DraftProposal,
    ProposeItem,
    ProposeOutcome,
    SequenceUpdate,
)


class SimulatedCandidates:
    """A client of a service that answers one call after the other."""

    def __init__(self, model: CandidatesModel, guesses: Guesses) -> None:
        self._model = model
        self._guesses = guesses
        self._turn = asyncio.Lock()
        # epoch, text, and number of prompt tokens
        self._known: dict[str, tuple[int, int, int]] = {}
        self.num_calls = 0

    async def info(self) -> CandidatesInfo:
        return CandidatesInfo(self._guesses.sources, top_k=0, rates=self._guesses.rates)

    async def close(self) -> None:
        """Nothing is held."""

    async def observe(self, update: CandidatesUpdate, timeout_s: float) -> tuple[str, ...]:
        return self._apply(update)

    async def propose(
        self,
        update: CandidatesUpdate,
        items: Sequence[ProposeItem],
        timeout_s: float,
        traceparents: Sequence[str] = (),
    ) -> ProposeOutcome:
        """Raises DeadlineExceeded after ``timeout_s``."""
        self.num_calls += 1
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                return await self._propose(update, items)
        except TimeoutError as error:
            raise DeadlineExceeded("candidates came too late") from error

    async def _propose(
        self, update: CandidatesUpdate, items: Sequence[ProposeItem]
    ) -> ProposeOutcome:
        unknown = list(self._apply(update))
        proposals: list[DraftProposal] = []
        costs_ms = dict.fromkeys(self._guesses.sources, 0.0)
        for item in items:
            epoch, text, num_prompt_tokens = self._known.get(item.request_id, (0, 0, 0))
            if epoch != item.epoch:
                unknown.append(item.request_id)
                continue
            place = Place(text, num_prompt_tokens, item.base_len - num_prompt_tokens)
            asked = item.sources or self._guesses.sources
            tree = self._guesses.tree(place, asked, item.max_nodes, item.max_depth)
            for rate in self._guesses.rates:
                if rate.name in asked:
                    costs_ms[rate.name] += rate.ms_per_request
            proposals.append(DraftProposal(item.request_id, item.epoch, item.base_len, tree))
        call_ms = self._model.call_ms + self._model.call_ms_per_request * len(items)
        await asyncio.sleep((call_ms + sum(costs_ms.values())) / 1e3)
        costs_ns = {name: round(ms * 1e6) for name, ms in costs_ms.items()}
        return ProposeOutcome(tuple(proposals), tuple(unknown), costs_ns)

    def _apply(self, update: CandidatesUpdate) -> tuple[str, ...]:
        """Take in what happened; returns the ids of sequences of which the start is missing."""
        unknown = [each.request_id for each in update.sequences if not self._follow(each)]
        for end in update.releases:
            if self._known.get(end.request_id, (0, 0, 0))[0] <= end.epoch:
                self._known.pop(end.request_id, None)
        return tuple(unknown)

    def _follow(self, update: SequenceUpdate) -> bool:
        if not update.base_len:
            text = text_of(update.request_id)
            self._known[update.request_id] = update.epoch, text, update.num_prompt_tokens
            return True
        known = self._known.get(update.request_id)
        return known is not None and known[0] == update.epoch
