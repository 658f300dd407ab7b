"""Hypothesis strategies for token trees."""

from __future__ import annotations

from hypothesis import strategies as st

from dspark.token_tree import TokenTree

VOCAB_SIZE = 50
SOURCE_NAMES = ("recycle", "suffix", "retrieval")


@st.composite
def token_trees(
    draw: st.DrawFn, *, max_nodes: int = 12, vocab_size: int = VOCAB_SIZE, min_nodes: int = 0
) -> TokenTree:
    """Valid trees; siblings may repeat a token, as merged proposals never do but a peer might."""
    size = draw(st.integers(min_nodes, max_nodes))
    scores = st.floats(0.0, 1.0, width=32, exclude_min=True)
    return TokenTree(
        token_ids=tuple(draw(st.integers(0, vocab_size - 1)) for _ in range(size)),
        parents=tuple(draw(st.integers(0, node)) for node in range(size)),
        source_masks=tuple(draw(st.integers(1, 2 ** len(SOURCE_NAMES) - 1)) for _ in range(size)),
        scores=tuple(draw(scores) for _ in range(size)),
        source_names=SOURCE_NAMES,
    )
