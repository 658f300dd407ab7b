"""What is known of a node before the pass: how sure its source was, and where it stands."""

from __future__ import annotations

import math

from dspark.token_tree import TokenTree

NUM_PRIORS = 5
# Scores below count as this.
_MIN_SCORE = 1e-4
# Survivals go to the power of this, so that both logarithms are of one size.
_SURVIVAL_SHARE = 1 / 3

Prior = tuple[float, ...]


def priors_of(tree: TokenTree, is_drawn: bool) -> list[Prior]:
    """Of each node: how surprising its score and its survival are, in nats; whether a sibling
    comes before it; whether it is no child of the anchor; whether tokens are drawn with noise.
    """
    seen: set[int] = set()
    surprises: list[float] = []
    priors: list[Prior] = []
    for parent, score in zip(tree.parents, tree.scores, strict=True):
        own = -math.log(score) if score > _MIN_SCORE else -math.log(_MIN_SCORE)
        surprises.append(own + (surprises[parent - 1] if parent else 0.0))
        is_later, is_deep = float(parent in seen), float(parent != 0)
        priors.append((own, surprises[-1] * _SURVIVAL_SHARE, is_later, is_deep, float(is_drawn)))
        seen.add(parent)
    return priors
