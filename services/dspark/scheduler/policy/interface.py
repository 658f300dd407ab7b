"""What a speculation policy sees and decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.profiles import Profile
from dspark.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Settings that policies share; meanings as in SchedulerConfig."""

    num_draft_tokens: int = 7
    min_survival: float = 0.3
    min_gain: float = 0.02
    explore_share: float = 0.01


@dataclass(frozen=True, slots=True)
class StepContext:
    """The step that candidates would ride on."""

    # rows of the pass without candidates, and tokens it commits without them
    num_rows: int
    num_committing: int
    # rows left for candidates
    max_nodes: int
    # time of a step outside the forward pass and outside proposing
    overhead_ms: float
    # time of proposing: before it, of the call without what each request adds to it; after it, all
    propose_ms: float
    costs: CostTable | None
    # requests that decode, and the time of a pass of theirs alone; 0: all that commits, in this one
    num_decoding: int = 0
    decoding_ms: float = 0.0
    # whether prompts wait for rows although there are places for their requests
    prompts_wait: bool = False


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request that may take candidates.

    ``profiles`` has what its recent proposals offered, at least one, oldest first. ``propose_ms``
    is what it adds to the time of proposing, and ``policy`` the name of the policy that decides
    for it, empty for the server's.
    """

    max_nodes: int
    profiles: tuple[Profile, ...]
    steps_since_asked: int
    propose_ms: float = 0.0
    policy: str = ""

    def profile(self, askings_ago: int) -> Profile:
        """The latest one for 1; the oldest where there are fewer."""
        return self.profiles[max(-askings_ago, -len(self.profiles))]


class Budget(NamedTuple):
    """How many nodes to ask for; those of less than ``min_survival`` are not worth a row."""

    max_nodes: int = 0
    min_survival: float = 0.0

    def within(self, max_nodes: int) -> Budget:
        """The same with at most so many nodes."""
        return self if self.max_nodes <= max_nodes else self._replace(max_nodes=max_nodes)


class ScoredTree(NamedTuple):
    """A proposal with the calibrated survival of each node, and the policy that decides on it."""

    tree: TokenTree
    survivals: Sequence[float]
    policy: str = ""


class SpeculationPolicy(Protocol):
    """Decides what to ask candidates for, then which of the proposed nodes to verify.

    Nothing it decides can change what is generated.
    """

    @property
    def is_off(self) -> bool:
        """True when it never asks, so candidates need no updates either."""
        ...

    @property
    def price(self) -> float:
        """Tokens a millisecond that the last step's nodes had to be worth; 0 if it has no price."""
        return 0.0

    def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
        """One budget a view; called once a step, before proposing."""
        ...

    def select(self, trees: Sequence[ScoredTree], context: StepContext) -> list[TokenTree]:
        """The part of each tree to verify; it may be empty."""
        ...


def best_nodes(trees: Sequence[ScoredTree]) -> list[tuple[float, int, int]]:
    """All nodes as (survival, tree, node), best first.

    A child's survival is below its parent's, so any number of first entries is a set of valid
    subtrees.
    """
    nodes = [
        (survival, index, node)
        for index, scored in enumerate(trees)
        for node, survival in enumerate(scored.survivals)
    ]
    nodes.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
    return nodes


def keep(trees: Sequence[ScoredTree], nodes: Sequence[Sequence[int]]) -> list[TokenTree]:
    """The chosen nodes of each tree."""
    return [_keep(scored.tree, chosen) for scored, chosen in zip(trees, nodes, strict=True)]


def _keep(tree: TokenTree, nodes: Sequence[int]) -> TokenTree:
    if not nodes:
        return TokenTree()
    return tree if len(nodes) == len(tree) else tree.subtree(nodes)
