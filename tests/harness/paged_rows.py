"""Sequences whose K/V lies in shuffled KV blocks, and passes over them as the engine lays them out.

Each sequence has random queries, keys and values for its tokens, and for the nodes of a tree that
may follow. Node i lies in the slot after its sequence's tokens that its number says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from dspark.sampling import SamplingParams
from dspark.step import SequenceAdmission, SequenceWork
from dspark.token_tree import TokenTree
from dspark.verifier.admission import Limits, new_sequence
from dspark.verifier.attention.backend import AttentionBackend, AttentionLayer
from dspark.verifier.batch_builder import build_batch
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.scheduled_work import ScheduledWork
from harness.scripted_drafters import tree_of

_LIMITS = Limits(1000, 1_000_000, 1_000_000, frozenset())


@dataclass
class PagedSequence:
    """Rows are the tokens, then the nodes: q [rows, heads, dim], k and v [rows, kv_heads, dim]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    num_tokens: int
    blocks: list[int]
    block_size: int
    parents: Sequence[int] = field(default=())

    def entry(self, start: int, end: int, *, tree: bool = False) -> ScheduledWork:
        """Tokens ``start`` to ``end``, and the tree after them."""
        admission = SequenceAdmission(
            "r", 0, (0,) * self.num_tokens, 1, SamplingParams(max_tokens=500)
        )
        sequence = new_sequence(admission, _LIMITS, self.block_size)
        sequence.table.append(self.blocks)
        nodes = tree_of([1 + i for i in range(len(self.parents))], list(self.parents))
        work = SequenceWork("r", 0, self.num_tokens, end - start, nodes if tree else TokenTree())
        entry = ScheduledWork(sequence, work, start, end)
        if tree:
            entry.set_tree(nodes, max_nodes=len(self.parents))
        return entry

    def rows(self, start: int, end: int, *, tree: bool = False) -> list[int]:
        """Indexes into q, k and v of the rows that such an entry has."""
        nodes = range(self.num_tokens, self.num_tokens + len(self.parents))
        return [*range(start, end), *(nodes if tree else ())]

    def path(self, row: int) -> list[int]:
        """The rows that a row sees, itself last."""
        if row < self.num_tokens:
            return list(range(row + 1))
        parent = self.parents[row - self.num_tokens]
        before = self.num_tokens + parent - 1 if parent else self.num_tokens - 1
        return [*self.path(before), row]

    def dense(self, row: int, layer: AttentionLayer) -> torch.Tensor:
        """[heads, dim] what attention of one row is, in float64."""
        path = self.path(row)[-layer.sliding_window or None :]
        group = self.q.shape[1] // self.k.shape[1]
        k = self.k[path].double().repeat_interleave(group, dim=1)
        v = self.v[path].double().repeat_interleave(group, dim=1)
        scores = torch.einsum("hd,khd->hk", self.q[row].double(), k) * layer.scaling
        if layer.soft_cap:
            scores = layer.soft_cap * torch.tanh(scores / layer.soft_cap)
        return torch.einsum("hk,khd->hd", scores.softmax(-1), v)


@dataclass(frozen=True)
class Part:
    """A sequence's rows in a pass: tokens [start, end), and its tree."""

    sequence: PagedSequence
    start: int
    end: int
    tree: bool = False


def batch_of(parts: Sequence[Part]) -> ForwardBatch:
    return build_batch([p.sequence.entry(p.start, p.end, tree=p.tree) for p in parts])


def attend(
    backend: AttentionBackend, layer: AttentionLayer, cache: KvCache, parts: Sequence[Part]
) -> torch.Tensor:
    """[rows, heads, dim] one layer over the parts, in their order."""
    rows = [(p.sequence, p.sequence.rows(p.start, p.end, tree=p.tree)) for p in parts]
    q, k, v = (
        torch.cat([getattr(sequence, name)[own] for sequence, own in rows]) for name in "qkv"
    )
    return backend.attend(backend.plan(batch_of(parts)), layer, cache, q, k, v)
