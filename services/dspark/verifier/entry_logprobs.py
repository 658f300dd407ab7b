"""What a commit tells of how likely an entry's tokens were, for requests that ask."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspark.logprobs import TokenLogprobs
from dspark.verifier.sampling.logprobs import LogprobsMode, run_logprobs, token_logprobs
from dspark.verifier.sampling.walk import WalkResult
from dspark.verifier.scheduled_work import ScheduledWork

Logits = NDArray[np.float32]
Logprobs = tuple[TokenLogprobs, ...]


def note_prompt_logprobs(entry: ScheduledWork, logits: Logits) -> None:
    """Keep those of the prompt rows' successors, whose ``logits`` [num_prompt_logits, vocab_size]
    are the model's own, with the sequence.
    """
    sequence = entry.sequence
    num_top = sequence.sampling.prompt_logprobs
    assert num_top is not None
    following = sequence.tokens.ids[entry.start + 1 : entry.start + 1 + len(logits)].tolist()
    for row, token_id in zip(logits, following, strict=True):
        sequence.prompt_logprobs.append(token_logprobs(row, token_id, num_top))


def take_prompt_logprobs(entry: ScheduledWork, walked: WalkResult) -> Logprobs:
    """All of the prompt's, once: with the first committed token."""
    sequence = entry.sequence
    if not sequence.prompt_logprobs or not walked.committed_token_ids:
        return ()
    taken = tuple(sequence.prompt_logprobs)
    sequence.prompt_logprobs.clear()
    return taken


def committed_logprobs(
    entry: ScheduledWork, logits: Logits, walked: WalkResult, mode: LogprobsMode
) -> Logprobs:
    """Those of the committed tokens, from the walk's ``logits`` [1 + num_nodes, vocab_size].

    The sequence must still be as it was before the walk.
    """
    num_top = entry.sequence.sampling.logprobs
    token_ids = walked.committed_token_ids
    if num_top is None or not token_ids:
        return ()
    rows = logits[[0, *walked.accepted_nodes]][: len(token_ids)]
    return run_logprobs(rows, token_ids, entry.sequence.sampler, mode, num_top)
