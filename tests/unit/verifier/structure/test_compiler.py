"""Compiled grammars are kept, and one whose memory is full is made anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from llguidance import LLParserLimits

from dspark.grammars import compilation
from dspark.structured_output import StructuredOutput
from dspark.verifier.structure.compiler import Structures
from dspark.verifier.structure.guide import Guide
from dspark.verifier.structure.loading import load_structures
from dspark.verifier.token_buffer import TokenBuffer
from harness.byte_tokenizer import write_model_dir

VOCAB_SIZE, END = 258, 256
# Its automaton has as many states as there are texts of 25 letters.
EXPLOSIVE = StructuredOutput.regex("(a|b)*a(a|b){25}")


def guide_of(structures: Structures, output: StructuredOutput, tokens: TokenBuffer) -> Guide:
    return Guide(
        structures.start(output),
        lambda: structures.renew(output),
        tokens,
        0,
        end_ids=frozenset({END}),
        ignores_ends=False,
    )


def test_the_same_output_is_compiled_once(tmp_path: Path) -> None:
    structures = load_structures(write_model_dir(tmp_path), VOCAB_SIZE, {END}, 2)
    first = structures.start(StructuredOutput.regex("a"))
    assert structures.start(StructuredOutput.regex("a")) is first
    for pattern in "bc":
        structures.start(StructuredOutput.regex(pattern))
    assert structures.num_cached == 2
    assert structures.start(StructuredOutput.regex("a")) is not first


def test_there_are_none_without_a_tokenizer(tmp_path: Path) -> None:
    assert not load_structures(tmp_path, VOCAB_SIZE, {END}, 2).is_available
    (tmp_path / "tokenizer.json").write_text("{}")
    assert not load_structures(tmp_path, VOCAB_SIZE, {END}, 2).is_available


def test_what_others_made_of_a_grammar_ends_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = LLParserLimits(max_lexer_states=200, verbose_errors=False)
    monkeypatch.setattr(compilation, "LIMITS", limits)
    structures = load_structures(write_model_dir(tmp_path), VOCAB_SIZE, {END}, 4)
    generator = np.random.default_rng(0)
    num_compiled = []
    for _ in range(12):
        text = generator.choice([97, 98], size=40).tolist()
        guide = guide_of(structures, EXPLOSIVE, TokenBuffer([]))
        structures.wait(10)
        for count in range(len(text)):
            logits = np.zeros(VOCAB_SIZE, dtype=np.float32)
            guide(logits, text[:count])
            assert np.isfinite(logits[text[count]])
        num_compiled.append(structures.books.compile_s.count)
    assert num_compiled[-1] > num_compiled[0]
