"""Candidate sources that play scripts, and sources that misbehave in other ways."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from dspark.candidates.sources.interface import CandidateSource, DraftRequest
from dspark.token_tree import TokenTree
from harness.scripted_drafters import Draft, Script

Truth = Callable[[Sequence[int]], Sequence[int]]
"""From all token ids of a request so far to those that plain decoding generates next."""


class ScriptedSource(CandidateSource):
    """Plays a script for every request."""

    def __init__(self, name: str, script: Script, truth: Truth, vocab_size: int) -> None:
        self.name = name
        self._script = script
        self._truth = truth
        self._vocab_size = vocab_size
        self._rounds: Counter[str] = Counter()

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> Sequence[TokenTree] | Awaitable[Sequence[TokenTree]]:
        return [self._play(request) for request in requests]

    def _play(self, request: DraftRequest) -> TokenTree:
        token_ids = tuple(request.sequence.token_ids)
        draft = Draft(
            token_ids,
            tuple(self._truth(token_ids)),
            request.max_nodes,
            request.max_depth,
            self._vocab_size,
            self._rounds[request.sequence.request_id],
        )
        self._rounds[request.sequence.request_id] += 1
        return self._script(draft)


class SlowSource(ScriptedSource):
    """Plays its script only after a delay."""

    def __init__(
        self, name: str, script: Script, truth: Truth, vocab_size: int, delay_s: float
    ) -> None:
        super().__init__(name, script, truth, vocab_size)
        self._delay_s = delay_s

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> Awaitable[Sequence[TokenTree]]:
        return self._propose_late(requests)

    async def _propose_late(self, requests: Sequence[DraftRequest]) -> Sequence[TokenTree]:
        await asyncio.sleep(self._delay_s)
        return [self._play(request) for request in requests]


class CrashingSource(CandidateSource):
    """Raises from every call, except for the first ``healthy_calls`` of ``propose``."""

    def __init__(self, name: str = "crash", healthy_calls: int = 0) -> None:
        self.name = name
        self.feature_layers = (0,)
        self.num_features = 1
        self.num_proposals = 0
        self._healthy_calls = healthy_calls

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        self.num_proposals += 1
        if self.num_proposals > self._healthy_calls:
            raise RuntimeError("crashed while proposing")
        return [TokenTree() for _ in requests]

    def commit(self, sequence: object, token_ids: Sequence[int]) -> None:
        raise RuntimeError("crashed while committing")

    def observe(self, successors: object) -> None:
        raise RuntimeError("crashed while observing")

    def observe_features(self, sequence: object, features: object) -> None:
        raise RuntimeError("crashed while observing features")

    def release(self, sequence: object, completed: bool) -> None:
        raise RuntimeError("crashed while releasing")
