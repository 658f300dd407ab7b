"""Acceptance of sources on texts that the target is known to write, without running it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.proposer import Proposer
from dspark.candidates.sources.interface import CandidateSource
from dspark.features import Features
from dspark.proposal import CandidatesUpdate, ProposeItem, SequenceEnd, SequenceUpdate
from dspark.token_tree import TokenTree

MAX_DEPTH = 16
SCORE_BINS = 10


@dataclass(slots=True)
class Acceptance:
    """What happened over the rounds of some texts.

    ``tried`` and ``accepted`` count nodes by depth: a depth is tried in a round that accepted all
    before it. ``bins`` has, by score in tenths, sum of scores, accepted and number of the nodes
    whose parent was accepted.
    """

    num_rounds: int = 0
    num_tokens: int = 0
    tried: Counter[int] = field(default_factory=Counter)
    accepted: Counter[int] = field(default_factory=Counter)
    bins: dict[int, tuple[float, int, int]] = field(default_factory=dict)

    @property
    def acceptance_length(self) -> float:
        """Tokens of a pass, the bonus token among them."""
        return self.num_tokens / max(1, self.num_rounds)

    @property
    def conditional(self) -> list[float]:
        """For each depth from 1 on, how often a node was accepted if all before it were."""
        return [self.accepted[depth] / self.tried[depth] for depth in sorted(self.tried)]

    @property
    def calibration_error(self) -> float:
        """Expected calibration error of the scores."""
        total = sum(count for _, _, count in self.bins.values())
        gaps = (abs(score - accepted) for score, accepted, _ in self.bins.values())
        return sum(gaps) / max(1, total)

    def add(self, tree: TokenTree, path: Sequence[int]) -> None:
        """One round: ``path`` has the accepted nodes, from the anchor down."""
        self.num_rounds += 1
        self.num_tokens += len(path) + 1
        for depth in range(1, len(path) + 2):
            self.tried[depth] += 1
        for depth in range(1, len(path) + 1):
            self.accepted[depth] += 1
        reached = {0, *(node + 1 for node in path)}
        for node, (parent, score) in enumerate(zip(tree.parents, tree.scores, strict=True)):
            if parent in reached:
                at = min(int(score * SCORE_BINS), SCORE_BINS - 1)
                total, accepted, count = self.bins.get(at, (0.0, 0, 0))
                self.bins[at] = (total + score, accepted + (node in path), count + 1)


def accepted_path(tree: TokenTree, truth: Sequence[int]) -> list[int]:
    """The nodes on the path of ``truth``, from the anchor down."""
    path: list[int] = []
    entry = 0
    for token_id in truth:
        entry = tree.children[entry].get(token_id, 0)
        if entry == 0:
            break
        path.append(entry - 1)
    return path


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """``values`` bfloat16 as uint16 [num_tokens, num_layers, hidden_size] from a text's start."""

    layers: tuple[int, ...]
    values: NDArray[np.uint16]

    def of(self, source: CandidateSource, end: int) -> Features:
        """What ``source`` wants of the tokens before ``end``."""
        start = max(0, end - source.num_features)
        places = [self.layers.index(layer) for layer in source.feature_layers]
        chosen = np.ascontiguousarray(self.values[start:end, places])
        return Features(start, (end - start, len(places), chosen.shape[2]), chosen.tobytes())


async def replay(
    proposer: Proposer,
    name: str,
    token_ids: Sequence[int],
    num_prompt_tokens: int,
    max_nodes: int,
    acceptance: Acceptance,
    features: TextFeatures | None = None,
) -> None:
    """Decode one text whose tokens are known; its first token comes with the prompt's pass.

    With ``features`` sources see what a target would hand to them before each proposal.
    """
    done = num_prompt_tokens + 1
    update = CandidatesUpdate(
        (SequenceUpdate(name, 1, 0, tuple(token_ids[:done]), num_prompt_tokens),)
    )
    while done < len(token_ids):
        item = ProposeItem(name, 1, done, max_nodes, MAX_DEPTH)
        proposer.observe(update)
        if features is not None:
            _hand_out(proposer, item, features)
        tree = (await proposer.propose(CandidatesUpdate(), [item])).proposals[0].tree
        # The last token of a text is always the bonus token.
        path = accepted_path(tree, token_ids[done:-1])
        acceptance.add(tree, path)
        new = tuple(token_ids[done : done + len(path) + 1])
        update = CandidatesUpdate((SequenceUpdate(name, 1, done, new),))
        done += len(new)
    proposer.observe(CandidatesUpdate(releases=(SequenceEnd(name, 1, False),)))


def _hand_out(proposer: Proposer, item: ProposeItem, features: TextFeatures) -> None:
    """The anchor itself is not computed yet, so its hidden states do not exist."""
    sequence = proposer.sequences.find(item)
    for runner in proposer.runners:
        if sequence is not None and runner.source.num_features:
            seen = features.of(runner.source, len(sequence) - 1)
            runner.source.observe_features(sequence, seen)
