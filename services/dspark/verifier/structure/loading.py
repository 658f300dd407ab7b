"""Structured outputs for a model, as far as its directory has a tokenizer."""

from __future__ import annotations

import logging
from collections.abc import Set
from pathlib import Path

from dspark.grammars.compilation import compile_grammar, load_vocabulary
from dspark.verifier.structure.compiler import GrammarCompiler, NoStructures, Structures
from dspark.verifier.structure.grammar_matcher import GrammarMatcher

log = logging.getLogger(__name__)


def load_structures(
    directory: Path, vocab_size: int, eos_token_ids: Set[int], max_cached: int
) -> Structures:
    """``vocab_size`` is the number of logits, ``max_cached`` the most grammars that are kept."""
    file = directory / "tokenizer.json"
    if not file.is_file():
        log.info("%s does not exist: structured outputs are not available", file)
        return NoStructures()
    try:
        vocabulary = load_vocabulary(file, vocab_size, eos_token_ids)
    except ValueError as error:
        log.warning("structured outputs are not available: %s: %s", file, error)
        return NoStructures()
    return GrammarCompiler(
        lambda output: GrammarMatcher(compile_grammar(vocabulary, output)), max_cached
    )
