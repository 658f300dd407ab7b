"""How many nodes a verifier may add to each tree of tokens that a grammar forces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dspark.sampling import SpeculationStats
from dspark.scheduler.batcher import Batch, ScheduledRows
from dspark.scheduler.request import Request
from dspark.step import WorkResult
from dspark.token_tree import TokenTree

# Longer runs without a choice, such as the names of nested fields, are rare.
MAX_FORCED_NODES = 16
# What such nodes are counted under.
SOURCE = "grammar"


def forced_limits(
    batch: Batch, rows: Sequence[ScheduledRows], drafts: Mapping[Request, TokenTree]
) -> dict[Request, int]:
    """The limit of each request that has a grammar and wants speculation, if above 0.

    Nearly all of these nodes are accepted, so they get what rows candidates leave.
    """
    asking = [r.request for r in rows if r.commits and _wants_them(r.request)]
    room = batch.max_nodes - sum(len(tree) for tree in drafts.values())
    if not asking or room < len(asking):
        return {}
    share = room // len(asking)
    limits = {request: min(MAX_FORCED_NODES, share, _own_limit(request)) for request in asking}
    return {request: limit for request, limit in limits.items() if limit > 0}


def count_forced(stats: SpeculationStats, result: WorkResult) -> None:
    """Count the forced nodes of one committed verify pass."""
    if result.num_forced_nodes:
        stats.add_nodes(SOURCE, result.num_forced_nodes, result.num_accepted_forced)


def _wants_them(request: Request) -> bool:
    return request.spec.sampling.structured is not None and request.spec.speculation.enabled


def _own_limit(request: Request) -> int:
    own = request.spec.speculation.max_draft_tokens
    return MAX_FORCED_NODES if own is None else own
