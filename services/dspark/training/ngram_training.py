"""``ngram``: counts the target's texts into a table, and reports how well it guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspark.candidates.sources.ngram import NgramSource
from dspark.candidates.sources.ngram_table import NgramTable
from dspark.candidates.sources.suffix import SuffixSource
from dspark.training.held_out import acceptance_of, split
from dspark.training.ngram_counts import NgramText
from dspark.training.ngram_tables import build_table
from dspark.training.replay import Acceptance
from dspark.training.text_store import StoredText

# Continuations kept of contexts of 1, 2, 3 tokens and of 4.
WIDTHS = (8, 4, 3, 2)
# What such contexts leave open, in occurrences. Held-out text of the target's own would choose a
# quarter of these, but requests in use are less alike than those that a model invents; acceptance
# on recorded answers to other prompts changes by less than 1 % from these to twice as much.
ESCAPES = (24.0, 16.0, 8.0, 4.0)


@dataclass(frozen=True, slots=True)
class TrainedNgram:
    """The table, and its acceptance on held-out texts: alone and with ``suffix``."""

    table: NgramTable
    alone: Acceptance
    with_suffix: Acceptance


def train_ngram(
    texts: Sequence[StoredText],
    counted: Sequence[NgramText],
    target_digest: str,
    vocab_size: int,
    start: NgramTable | None = None,
    max_contexts: int | None = None,
) -> TrainedNgram:
    """Every 20th text is held out for the report, then counted like the others.

    ``counted`` has the same texts as they are counted. What was counted for ``start`` counts, too.
    The table has at most ``max_contexts``, those that occur most.

    Raises ValueError when there are too few texts to hold any out.
    """
    held_out = split(texts)[1]
    trial = build_table(split(counted)[0], WIDTHS, ESCAPES, target_digest, start, max_contexts)
    return TrainedNgram(
        table=build_table(counted, WIDTHS, ESCAPES, target_digest, start, max_contexts),
        alone=acceptance_of([NgramSource(trial)], held_out, vocab_size),
        with_suffix=acceptance_of([NgramSource(trial), SuffixSource()], held_out, vocab_size),
    )


def own_tokens(text: StoredText) -> NgramText:
    """Each place of the answer counts for its own token."""
    return NgramText.of(text.token_ids, text.num_prompt_tokens)


def table_of(texts: Sequence[StoredText], target_digest: str) -> NgramTable:
    """The table that the tokens of these texts give."""
    return build_table([own_tokens(text) for text in texts], WIDTHS, ESCAPES, target_digest)
