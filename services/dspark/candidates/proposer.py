"""The candidates service without its wire: updates in, token trees out."""

from __future__ import annotations

import time
from collections.abc import Sequence

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.draft_round import DraftRound
from dspark.candidates.feature_delivery import FeatureDelivery
from dspark.candidates.proposal_books import ProposalBooks
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sequence_table import SequenceTable
from dspark.candidates.source_runner import SourceRunner
from dspark.candidates.sources.interface import CandidateSource, DraftRequest
from dspark.candidates.vocabulary import Vocabulary
from dspark.circuit_breaker import CircuitBreaker
from dspark.proposal import (
    CandidatesInfo,
    CandidatesUpdate,
    DraftProposal,
    ProposeItem,
    ProposeOutcome,
)


class Proposer:
    """Keeps the sequences, tells the sources what happened, and merges their trees.

    All calls come from one event loop. A source can delay ``propose`` up to the deadline, and do
    nothing worse.
    """

    def __init__(self, sources: Sequence[CandidateSource], config: CandidatesConfig) -> None:
        self.books = ProposalBooks()
        self._deadline_s = config.propose_deadline_ms / 1000
        self.runners = [
            SourceRunner(source, _breaker(config), self._deadline_s) for source in sources
        ]
        self.features = FeatureDelivery(self.runners)
        self._max_tree_nodes = config.max_tree_nodes
        self._vocabulary = Vocabulary(config.vocab_size)
        self.sequences = SequenceTable(
            self._on_commit,
            self._on_release,
            lease_s=config.lease_s,
            max_sequences=config.max_sequences,
        )

    @property
    def info(self) -> CandidatesInfo:
        rates = (runner.rate.of(runner.name) for runner in self.runners)
        return CandidatesInfo(
            sources=tuple(runner.name for runner in self.runners),
            top_k=max((runner.source.top_k for runner in self.runners), default=0),
            rates=tuple(rate for rate in rates if rate is not None),
            feature_layers=self.features.layers,
            num_features=self.features.num_features,
            feature_sources=self.features.source_names,
        )

    async def start(self) -> None:
        for runner in self.runners:
            await runner.source.start()

    async def close(self) -> None:
        for runner in self.runners:
            await runner.source.close()

    def observe(self, update: CandidatesUpdate) -> tuple[str, ...]:
        """Apply an update; returns the requests whose sequences must be sent whole."""
        unknown = [s.request_id for s in update.sequences if not self.sequences.apply(s)]
        for features in update.features:
            self.features.deliver(self.sequences.get(features.request_id), features)
        for successors in update.successors:
            self._vocabulary.note(successors.top_token_ids)
            for runner in self.runners:
                runner.tell(runner.source.observe, successors)
        for end in update.releases:
            self.sequences.end(end)
        self.sequences.reclaim()
        return tuple(unknown)

    async def propose(
        self,
        update: CandidatesUpdate,
        items: Sequence[ProposeItem],
        max_wait_s: float | None = None,
    ) -> ProposeOutcome:
        """Apply the update, then give a tree for each item whose sequence is known.

        Waits for sources up to the configured deadline, or ``max_wait_s`` if that is less.
        """
        wait_s = self._deadline_s if max_wait_s is None else min(self._deadline_s, max_wait_s)
        started = time.monotonic()
        deadline = started + wait_s
        unknown = dict.fromkeys(self.observe(update))
        known: list[ProposeItem] = []
        requests: list[DraftRequest] = []
        for item in items:
            sequence = self.sequences.find(item)
            if sequence is None:
                unknown[item.request_id] = None
                continue
            known.append(item)
            max_nodes = min(item.max_nodes, self._max_tree_nodes)
            requests.append(
                DraftRequest(sequence, max_nodes, item.max_depth, item.min_survival, item.price)
            )
        wanted = [item.sources for item in known]
        drafts = DraftRound(self.runners, requests, wanted, self._vocabulary.size, deadline)
        trees = await drafts.run()
        self.books.observe(time.monotonic() - started, len(items), len(items) - len(known))
        return ProposeOutcome(
            proposals=tuple(
                DraftProposal(item.request_id, item.epoch, item.base_len, tree)
                for item, tree in zip(known, trees, strict=True)
            ),
            unknown_request_ids=tuple(unknown),
            source_costs_ns=drafts.costs_ns,
        )

    def _on_commit(self, sequence: LiveSequence, token_ids: tuple[int, ...]) -> None:
        self._vocabulary.note(token_ids)
        for runner in self.runners:
            runner.tell(runner.source.commit, sequence, token_ids)

    def _on_release(self, sequence: LiveSequence, completed: bool) -> None:
        for runner in self.runners:
            runner.tell(runner.source.release, sequence, completed)


def _breaker(config: CandidatesConfig) -> CircuitBreaker:
    return CircuitBreaker(config.max_source_failures, config.min_mute_s, config.max_mute_s)
