"""Passes with cuts over the fake model, and judges that drop nodes by rules of their own."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.engine import Engine
from dspark.verifier.engine_settings import EngineSettings
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.pruning.compaction import compacted
from dspark.verifier.pruning.cut import Cut
from dspark.verifier.pruning.cut import RestrictedLogits as Told
from dspark.verifier.pruning.draw_scores import draw_scores
from dspark.verifier.pruning.forest import Forest
from dspark.verifier.pruning.judge import Judge
from dspark.verifier.pruning.occasions import Occasion, Occasions
from dspark.verifier.pruning.restricted_logits import RestrictedLogits
from harness.fake_model import UNWRITTEN, FakeKvStore, FakeModel
from harness.verifier_engine import CheckedRunner

LAYER = 1


class CuttingFakeRunner(CheckedRunner):
    """All rows write, then those that are not kept lose what they wrote, then the kept write again.

    So a kept row that sees one that left fails the check of positions. The cut is told the
    model's own logits, plus ``noise`` times a number that depends on row and token.
    """

    num_layers = 3
    noise = 0.0

    def forward_cut(self, batch: ForwardBatch, cut: Cut) -> NDArray[np.float32]:
        super().forward(batch)
        digests = self.kv.digests[batch.slot_mapping[cut.probe_rows]].tolist()
        told = [self._told(digest)[cut.token_ids] for digest in digests]
        kept = cut.choose(np.array(told, dtype=np.float32))
        gone = np.delete(batch.slot_mapping, kept)
        self.kv.positions[gone], self.kv.digests[gone] = UNWRITTEN, 2**63
        return super().forward(compacted(batch, kept))

    def _told(self, digest: int) -> NDArray[np.float32]:
        wrong = np.random.default_rng(digest).normal(size=self.vocab_size)
        return self.model.logits_of(digest) + self.noise * wrong.astype(np.float32)


Ids = NDArray[np.int64]
Nodes = NDArray[np.bool_]


class Ready:
    """A judge that never learns."""

    is_ready = True
    num_learnt = 0

    def hopeless(self, forest: Forest, token_ids: Ids, logits: Told) -> Nodes:
        raise NotImplementedError

    def learn(self, forest: Forest, stakes: Ids) -> None:
        self.num_learnt += 1


class From(Ready):
    """A node that is so far behind the best token of its parent's row is hopeless."""

    def __init__(self, margin: float) -> None:
        self.margin = margin

    def hopeless(self, forest: Forest, token_ids: Ids, logits: Told) -> Nodes:
        scores = draw_scores(forest, token_ids, logits)
        own = scores[forest.parent_places, np.searchsorted(token_ids, forest.token_ids)]
        found: Nodes = scores.max(axis=1)[forest.parent_places] - own >= self.margin
        return found


class AtRandom(Ready):
    """Every node is hopeless with a probability."""

    def __init__(self, probability: float) -> None:
        self.probability = probability
        self.chance = random.Random(0)

    def hopeless(self, forest: Forest, token_ids: Ids, logits: Told) -> Nodes:
        return np.array([self.chance.random() < self.probability for _ in range(len(forest))])


class Always:
    """A cut in every pass; every ``audit_interval``-th is an audit, if that is above 0."""

    layers = (LAYER,)

    def __init__(self, audit_interval: int = 0) -> None:
        self.audit_interval = audit_interval
        self.num_cuts = 0

    def next(self, num_rows: int, num_nodes: int, ready: Sequence[int]) -> Occasion | None:
        self.num_cuts += 1
        is_audit = bool(self.audit_interval) and self.num_cuts % self.audit_interval == 0
        return Occasion(LAYER, is_audit)

    def is_worth(self, layer: int, num_rows: int, num_kept: int) -> bool:
        return True

    def note(self, layer: int, num_nodes: int, num_dropped: int, choosing_ms: float) -> None:
        pass


def pruning_engine(
    judge: Judge,
    occasions: Occasions | None = None,
    *,
    num_blocks: int = 96,
    block_size: int = 4,
    noise: float = 0.0,
    eos_token_ids: frozenset[int] = frozenset(),
) -> tuple[Engine, CuttingFakeRunner]:
    """An engine that prunes its passes over the fake model."""
    kv = FakeKvStore(num_blocks * block_size)
    runner = CuttingFakeRunner(kv, FakeModel(), eos_token_ids=eos_token_ids)
    runner.noise = noise
    pruner = RestrictedLogits(runner, occasions or Always(), {LAYER: judge})
    settings = EngineSettings(
        num_blocks=num_blocks,
        block_size=block_size,
        num_evictable_blocks=16,
        is_row_invariant=True,
    )
    engine = Engine(runner, kv, settings, pruner=pruner)
    runner.engine = engine
    return engine, runner
