"""The parts of an evaluation that run the model: score a text, continue a prompt, compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dspark.verifier.evaluation.agreement import Agreement, agreement
from dspark.verifier.evaluation.log_probabilities import Logits, token_log_probabilities
from dspark.verifier.evaluation.plan import PromptWork
from dspark.verifier.evaluation.results import TextScore
from dspark.verifier.evaluation.sequence import SequenceRunner
from dspark.verifier.evaluation.windows import Window


def score_text(
    runner: SequenceRunner, windows: Sequence[Window], on_window: Callable[[int], None]
) -> TextScore:
    """Log-probabilities of a text; ``on_window`` gets the number of windows that are done."""
    sums = []
    for done, window in enumerate(windows, 1):
        sums.append(_score(runner, window))
        on_window(done)
    return TextScore(math.fsum(sums), sum(window.num_scored for window in windows))


def _score(runner: SequenceRunner, window: Window) -> float:
    token_ids = np.array(window.token_ids, dtype=np.int64)
    targets = token_ids[window.num_context :]
    total, done = 0.0, 0
    # Nothing follows the last token, so its row is not computed.
    for logits in runner.logits(token_ids[:-1], 0, window.num_context - 1):
        total += float(token_log_probabilities(logits, targets[done : done + len(logits)]).sum())
        done += len(logits)
    return total


def continue_greedily(
    runner: SequenceRunner,
    prompt: PromptWork,
    eos_token_ids: frozenset[int],
    continuation: list[int],
) -> Iterator[Logits]:
    """Append the most likely tokens to ``continuation``; yield the logits [vocab_size] of each.

    It ends with an end-of-sequence token, or with the prompt's largest number of tokens.
    """
    token_ids = list(prompt.token_ids)
    start = 0
    while len(continuation) < prompt.max_tokens:
        last = len(token_ids) - 1
        (logits,) = runner.logits(np.array(token_ids, dtype=np.int64), start, last)
        yield logits[0]
        token_id = int(logits[0].argmax())
        continuation.append(token_id)
        if token_id in eos_token_ids:
            return
        token_ids.append(token_id)
        start = last + 1


def compare(
    runner: SequenceRunner,
    prompt: PromptWork,
    continuation: Sequence[int],
    reference: Logits,
) -> Agreement:
    """This model over the reference's continuation, whose logits are [num_tokens, vocab_size]."""
    token_ids = np.array([*prompt.token_ids, *continuation[:-1]], dtype=np.int64)
    return agreement(
        np.array(continuation, dtype=np.int64),
        _pairs(reference, runner.logits(token_ids, 0, len(prompt.token_ids) - 1)),
    )


def _pairs(reference: Logits, chunks: Iterator[Logits]) -> Iterator[tuple[Logits, Logits]]:
    done = 0
    for chunk in chunks:
        yield reference[done : done + len(chunk)], chunk
        done += len(chunk)
