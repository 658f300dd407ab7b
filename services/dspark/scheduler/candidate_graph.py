"""What a candidates worker knows of each sequence, and what it must be told next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dspark.features import Features
from dspark.proposal import (
    CandidatesUpdate,
    SequenceEnd,
    SequenceFeatures,
    SequenceUpdate,
    Successors,
)
from dspark.scheduler.request import Request
from dspark.step import WorkResult

# Successors and ends are hints: beyond these bounds a worker that is away simply misses some.
MAX_SUCCESSOR_ROWS = 1024
MAX_ENDS = 512


@dataclass(frozen=True, slots=True)
class Delivery:
    """An update on its way; its fate decides what the worker knows."""

    update: CandidatesUpdate
    # epoch and length of each sequence once the update is applied
    lengths: dict[Request, tuple[int, int]]
    ends: tuple[tuple[Request, tuple[int, bool]], ...]


class CandidateGraph:
    """One worker's view. A sequence of which nothing certain is known is sent whole."""

    def __init__(self) -> None:
        self._known: dict[Request, tuple[int, int]] = {}
        # (epoch, completed): a request that moves to another verifier gets a new epoch
        self._ends: dict[Request, tuple[int, bool]] = {}
        self._successors: dict[str, tuple[list[int], list[int]]] = {}
        # with the epoch, of requests that have not ended
        self._features: dict[Request, tuple[int, Features]] = {}

    def knows(self, request: Request) -> bool:
        """Whether the worker has this incarnation, perhaps without its last tokens."""
        known = self._known.get(request)
        return known is not None and known[0] == request.epoch

    @property
    def has_ends(self) -> bool:
        return bool(self._ends)

    def add_end(self, request: Request, completed: bool) -> None:
        self._features.pop(request, None)
        if len(self._ends) < MAX_ENDS:
            self._ends[request] = request.epoch, completed
        else:
            self._known.pop(request, None)

    def add_successors(self, request: Request, result: WorkResult) -> None:
        """Keep the target's own most likely successors of the rows it computed."""
        if not result.row_token_ids:
            return
        rows, tops = self._successors.setdefault(request.spec.cache_salt, ([], []))
        if len(rows) < MAX_SUCCESSOR_ROWS:
            rows.extend(result.row_token_ids)
            tops.extend(result.top_token_ids)

    def add_features(self, request: Request, features: Features, num_tokens: int) -> None:
        """Keep those of the last ``num_tokens`` tokens, consecutive ones, until they are sent."""
        epoch, earlier = self._features.get(request, (0, features))
        if epoch == request.epoch:
            features = earlier.then(features)
        self._features[request] = request.epoch, features.last(num_tokens)

    def next_update(self, requests: Iterable[Request], *, whole: bool) -> Delivery:
        """What is new of known sequences, successors and ends; new sequences too if ``whole``."""
        lengths: dict[Request, tuple[int, int]] = {}
        sequences: list[SequenceUpdate] = []
        features: list[SequenceFeatures] = []
        for request in requests:
            if not self.knows(request) and not whole:
                continue
            lengths[request] = (request.epoch, len(request.token_ids))
            sequences.extend(self._tail(request))
            features.extend(self._take_features(request))
        ends = tuple(self._ends.items())
        for request, (_, completed) in ends:
            if completed:
                sequences.extend(self._tail(request))
        successors = tuple(
            Successors(tuple(rows), tuple(tops), salt)
            for salt, (rows, tops) in self._successors.items()
        )
        self._ends, self._successors = {}, {}
        releases = tuple(SequenceEnd(r.request_id, *end) for r, end in ends)
        update = CandidatesUpdate(tuple(sequences), successors, releases, tuple(features))
        return Delivery(update, lengths, ends)

    def delivered(self, delivery: Delivery, unknown_request_ids: Iterable[str]) -> None:
        """The worker applied the update, except for sequences that it does not know."""
        for request, known in delivery.lengths.items():
            if not request.is_finished:
                self._known[request] = known
        self._forget(delivery.ends)
        unknown = set(unknown_request_ids)
        if unknown:
            for request in [r for r in self._known if r.request_id in unknown]:
                del self._known[request]

    def lost(self, delivery: Delivery) -> None:
        """Nobody knows whether the update was applied: its sequences go whole, its ends again."""
        for request in delivery.lengths:
            self._known.pop(request, None)
        self._forget(delivery.ends)
        for request, end in delivery.ends:
            if len(self._ends) < MAX_ENDS:
                self._ends.setdefault(request, end)

    def last_update(self) -> CandidatesUpdate:
        """The end of everything that the worker may hold, for one that is asked no more."""
        ends = {request: (request.epoch, False) for request in self._known} | self._ends
        releases = tuple(SequenceEnd(r.request_id, *end) for r, end in ends.items())
        return CandidatesUpdate((), (), releases, ())

    def _forget(self, ends: Iterable[tuple[Request, tuple[int, bool]]]) -> None:
        for request, _ in ends:
            self._known.pop(request, None)

    def _take_features(self, request: Request) -> list[SequenceFeatures]:
        """Lost ones are not sent again: by then there are newer ones."""
        epoch, features = self._features.pop(request, (0, None))
        if features is None or epoch != request.epoch:
            return []
        return [SequenceFeatures(request.request_id, epoch, features)]

    def _tail(self, request: Request) -> list[SequenceUpdate]:
        base_len = self._known[request][1] if self.knows(request) else 0
        if base_len == len(request.token_ids):
            return []
        sampling = request.spec.sampling
        return [
            SequenceUpdate(
                request.request_id,
                request.epoch,
                base_len,
                tuple(request.token_ids[base_len:]),
                request.num_prompt_tokens,
                request.spec.cache_salt,
                temperature=0.0 if base_len else sampling.temperature,
                seed=0 if base_len else sampling.seed,
            )
        ]
