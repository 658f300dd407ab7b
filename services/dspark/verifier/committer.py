"""Turns logits into committed tokens, and leaves K/V, blocks and prefix cache in order."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from dspark.logprobs import TokenLogprobs
from dspark.sampling import FinishReason
from dspark.step import WorkResult, WorkStatus
from dspark.verifier.entry_logprobs import (
    committed_logprobs,
    note_prompt_logprobs,
    take_prompt_logprobs,
)
from dspark.verifier.feature_rows import FeatureRows, committed_features
from dspark.verifier.interfaces import KvStore
from dspark.verifier.kv.block_pool import BlockPool
from dspark.verifier.kv.prefix_cache import PrefixCache
from dspark.verifier.sampling.logprobs import LogprobsMode, raw_scores
from dspark.verifier.sampling.walk import WalkResult, walk
from dspark.verifier.scheduled_work import ScheduledWork
from dspark.verifier.sequence import Sequence
from dspark.verifier.sequence_table import SequenceTable
from dspark.verifier.structure.tree_fit import FORCED

_NO_WALK = WalkResult((), ())


class Committer:
    """What follows a forward pass: walk, move K/V, remember full blocks, end what has ended."""

    def __init__(
        self,
        sequences: SequenceTable,
        pool: BlockPool,
        cache: PrefixCache,
        kv: KvStore,
        *,
        block_size: int,
        logprobs_mode: LogprobsMode = raw_scores,
    ) -> None:
        self._sequences = sequences
        self._pool = pool
        self._cache = cache
        self._kv = kv
        self._block_size = block_size
        self._logprobs_mode = logprobs_mode

    def commit(
        self,
        entries: Seq[ScheduledWork],
        logits: NDArray[np.float32],
        features: FeatureRows,
    ) -> list[WorkResult]:
        """The results of the entries, whose logits [num_logits, vocab_size] follow their order."""
        walks: list[WalkResult] = []
        results: list[WorkResult] = []
        first = 0
        for entry in entries:
            if num_prompt_logits := entry.num_prompt_logits:
                note_prompt_logprobs(entry, logits[first : first + num_prompt_logits])
            rows = slice(first + num_prompt_logits, first + entry.num_logits)
            first = rows.stop
            walked = _walk(entry, logits[rows])
            walks.append(walked)
            logprobs = committed_logprobs(entry, logits[rows], walked, self._logprobs_mode)
            results.append(_result(entry, walked, features, logprobs))
        self._move_accepted(entries, walks)
        for entry, walked in zip(entries, walks, strict=True):
            self._advance(entry, walked)
        return results

    def _move_accepted(self, entries: Seq[ScheduledWork], walks: Seq[WalkResult]) -> None:
        """Bring the accepted nodes' K/V to where a chain would have put it."""
        sources: list[int] = []
        destinations: list[int] = []
        for entry, walked in zip(entries, walks, strict=True):
            slots = entry.sequence.table.slots
            for index, node in enumerate(walked.accepted_nodes):
                place = entry.places[node - 1]
                if place != index:
                    sources.append(int(slots[entry.end + place]))
                    destinations.append(int(slots[entry.end + index]))
        if sources:
            self._kv.move(np.array(sources, np.int32), np.array(destinations, np.int32))

    def _advance(self, entry: ScheduledWork, walked: WalkResult) -> None:
        sequence = entry.sequence
        sequence.tokens.extend(walked.committed_token_ids)
        sequence.num_computed = entry.end + len(walked.accepted_nodes)
        if _is_sick(walked):
            # Its K/V may be as bad as the logits, and so may what earlier passes wrote.
            self._cache.forget(sequence.table.blocks)
        elif sequence.uses_prefix_cache:
            self._remember_full_blocks(sequence)
        if walked.finish_reason is not None:
            self._sequences.drop(sequence)
        else:
            self._pool.release(sequence.table.trim(sequence.num_tokens))

    def _remember_full_blocks(self, sequence: Sequence) -> None:
        size = self._block_size
        while (sequence.num_hashed_blocks + 1) * size <= sequence.num_computed:
            index = sequence.num_hashed_blocks
            tokens = sequence.tokens.ids[index * size : (index + 1) * size]
            sequence.chain = self._cache.extend(sequence.chain, tokens)
            self._cache.insert(sequence.chain, sequence.table.blocks[index])
            sequence.num_hashed_blocks += 1


def _walk(entry: ScheduledWork, logits: NDArray[np.float32]) -> WalkResult:
    if not entry.reaches_end:
        return _NO_WALK
    sequence = entry.sequence
    return walk(
        entry.tree, logits, sequence.sampler, sequence.stop_rules(), base_len=sequence.num_tokens
    )


def _is_sick(walked: WalkResult) -> bool:
    """Whether the model gave a row from which no token can be drawn."""
    return walked.finish_reason is FinishReason.ERROR and not walked.no_token_left


def _result(
    entry: ScheduledWork,
    walked: WalkResult,
    features: FeatureRows,
    logprobs: tuple[TokenLogprobs, ...],
) -> WorkResult:
    accepted = [entry.kept_nodes[node - 1] for node in walked.accepted_nodes]
    successors = entry.sequence.take_successors()
    return WorkResult(
        request_id=entry.work.request_id,
        epoch=entry.work.epoch,
        status=WorkStatus.DONE,
        num_computed_tokens=entry.end + len(walked.accepted_nodes),
        committed_token_ids=walked.committed_token_ids,
        accepted_nodes=tuple(node + 1 for node in accepted if node != FORCED),
        finish_reason=walked.finish_reason,
        stop_token_id=walked.stop_token_id,
        row_token_ids=successors.row_token_ids,
        top_token_ids=successors.top_token_ids,
        features=committed_features(entry, walked.accepted_nodes, features),
        logprobs=logprobs,
        prompt_logprobs=take_prompt_logprobs(entry, walked),
        num_forced_nodes=entry.num_forced_nodes,
        num_accepted_forced=accepted.count(FORCED),
        no_token_left=walked.no_token_left,
    )
