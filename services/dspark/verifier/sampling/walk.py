"""Sample-and-match: plain decoding over logits rows that speculation computed ahead of time.

At the anchor's row the walk draws a token exactly as plain decoding would. If a child node carries
that token, the child is accepted and its row is the next one; if not, or if the token ends the
sequence, the token is the bonus token and the walk ends. No probability of the candidates takes
part, so the drawn tokens cannot depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.sampling import FinishReason
from dspark.token_tree import TokenTree
from dspark.verifier.sampling.sampler import BadLogits, NoTokenLeft, Sampler


def _never(path: Sequence[int]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class StopRules:
    """What ends a sequence; ``num_remaining`` tokens, at least 1, may still be committed.

    ``is_complete`` says whether the text with the tokens committed since the walk began is whole.
    """

    stop_token_ids: frozenset[int]
    num_remaining: int
    is_complete: Callable[[Sequence[int]], bool] = _never


@dataclass(frozen=True, slots=True)
class WalkResult:
    """Committed tokens, and the accepted nodes among them (node i as i + 1), anchor first.

    The last committed token is the bonus token, which is no node. ``no_token_left`` says of an
    ERROR that it is the request's own.
    """

    committed_token_ids: tuple[int, ...]
    accepted_nodes: tuple[int, ...]
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    no_token_left: bool = False


def walk(
    tree: TokenTree,
    logits: NDArray[np.float32],
    sampler: Sampler,
    rules: StopRules,
    *,
    base_len: int,
) -> WalkResult:
    """Walk ``tree`` over its logits [1 + num_nodes, vocab_size], the anchor's row first.

    ``base_len`` is the length of the sequence before the walk. A row that no token can be drawn
    from ends the sequence with ERROR.
    """
    committed: list[int] = []
    accepted: list[int] = []
    entry = 0
    if rules.is_complete(committed):
        return WalkResult((), (), FinishReason.STOP)
    while True:
        try:
            token_id = sampler.draw(logits[entry], base_len + len(committed), committed)
        except BadLogits as bad:
            is_own = isinstance(bad, NoTokenLeft)
            found = tuple(committed), tuple(accepted)
            return WalkResult(*found, FinishReason.ERROR, no_token_left=is_own)
        committed.append(token_id)
        reason = _finish_reason(committed, rules)
        child = tree.children[entry].get(token_id) if len(tree) else None
        if reason is not None or child is None:
            stop = token_id if token_id in rules.stop_token_ids else None
            return WalkResult(tuple(committed), tuple(accepted), reason, stop)
        accepted.append(child)
        entry = child


def _finish_reason(committed: Sequence[int], rules: StopRules) -> FinishReason | None:
    if committed[-1] in rules.stop_token_ids or rules.is_complete(committed):
        return FinishReason.STOP
    if len(committed) >= rules.num_remaining:
        return FinishReason.LENGTH
    return None
