"""Compiles grammars against a vocabulary, within limits of time and memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from dspark.grammars.refusal import GrammarRefused
from dspark.grammars.translation import grammar_text
from dspark.structured_output import StructuredOutput

# Each stops a grammar that costs more than about 20 ms of a step, or 100 MB.
LIMITS = LLParserLimits(
    max_items_in_row=2000,
    initial_lexer_fuel=500_000,
    step_lexer_fuel=200_000,
    step_max_items=50_000,
    max_lexer_states=50_000,
    max_grammar_size=100_000,
    verbose_errors=False,
)
_MAX_REASON_CHARS = 300


def load_vocabulary(
    tokenizer_file: Path, vocab_size: int | None = None, eos_token_ids: Iterable[int] = ()
) -> LLTokenizer:
    """The bytes of each token, from a ``tokenizer.json``; takes a second of a processor.

    ``vocab_size`` is the number of logits, where that is more than the tokenizer has tokens.
    Raises ValueError for a tokenizer that tells no bytes.
    """
    text = tokenizer_file.read_text(encoding="utf-8")
    return LLTokenizer(text, n_vocab=vocab_size, eos_token=sorted(eos_token_ids) or None)


def compile_grammar(vocabulary: LLTokenizer, output: StructuredOutput) -> LLMatcher:
    """A matcher at the beginning of the text, its first mask computed; raises GrammarRefused."""
    matcher = LLMatcher(vocabulary, grammar_text(output), log_level=0, limits=LIMITS)
    if not matcher.is_error():
        matcher.compute_bitmask()
    if matcher.is_error():
        raise GrammarRefused(_reason(matcher.get_error()))
    return matcher


def _reason(error: str) -> str:
    """The line that says most: what a parser calls its error, else the first."""
    if "NoExtension" in error:
        return "cannot be honoured: no text meets it"
    lines = [line.strip() for line in error.replace("<non-verbose/>", "").splitlines()]
    named = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    reason = ": ".join([*lines[:1], *named[:1]])
    return f"cannot be honoured: {reason[:_MAX_REASON_CHARS]}"
