"""Structured outputs as llguidance's grammars: what they match, and what is refused and why."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from llguidance import LLTokenizer

from dspark.grammars.compilation import compile_grammar, load_vocabulary
from dspark.grammars.refusal import GrammarRefused
from dspark.structured_output import StructuredOutput as Output
from dspark.verifier.structure.grammar_matcher import GrammarMatcher
from dspark.verifier.structure.matcher import MatcherFailed
from harness.byte_tokenizer import EOS, byte_tokenizer, write_model_dir

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["red", "redder"]}, "maxItems": 2},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
PIECES = [b'{"', b'": ', b'", "', b"name", b"age", b"red", b"er", b'"}', b"12", "é".encode()]
END = 256 + len(PIECES)
VOCAB_SIZE = END + 6  # more logits than the tokenizer has tokens


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> LLTokenizer:
    tokenizer = byte_tokenizer(PIECES)
    assert tokenizer.token_to_id(EOS) == END
    folder = write_model_dir(tmp_path_factory.mktemp("model"), tokenizer)
    return load_vocabulary(folder / "tokenizer.json", VOCAB_SIZE, {END})


def matcher_of(vocabulary: LLTokenizer, output: Output) -> GrammarMatcher:
    return GrammarMatcher(compile_grammar(vocabulary, output))


def matches(vocabulary: LLTokenizer, output: Output, text: str | bytes) -> bool:
    """Whether the whole text may be generated, byte by byte, and end there."""
    matcher = matcher_of(vocabulary, output)
    for byte in text.encode() if isinstance(text, str) else text:
        if not _masked(matcher)[byte] and not matcher.forced():
            return False
        try:
            matcher.consume((byte,))
        except MatcherFailed:
            return False
    return matcher.is_complete or matcher.allows(END)


def _masked(matcher: GrammarMatcher) -> np.ndarray:
    return matcher.mask(VOCAB_SIZE)


@pytest.mark.parametrize(
    ("output", "right", "wrong"),
    [
        (Output.regex("[a-c]{2}"), "ab", "abc"),
        (Output.regex("^[a-c]{2}$"), "ab", "^ab"),
        (Output.regex(r"\$é+"), "$éé", "$"),
        (Output.choice(["yes", "yes, sir", "nein"]), "yes", "ye"),
        (Output.choice(['a\n"\\b', "😀"]), 'a\n"\\b', "😁"),
        (Output.grammar('start: "<" /[a-z]+/ ">"'), "<ab>", "<>"),
        (Output.grammar('root ::= "a" root "b" | "c"'), "aacbb", "aacb"),
        (Output.json_object(), '{"a": [1, {"b": null}]}', "[1]"),
        (Output.json_schema(PERSON), '{"name": "Al", "age": 3}', '{"name": "Al"}'),
        (Output.json_schema(PERSON), '{"name": "Al", "age": 3}', '{"name":"Al","age":3}'),
        (
            Output.json_schema(PERSON, any_whitespace=True),
            '{\n "name" : "Al",  "age":3 }',
            '{"name": "Al", "age": 200}',
        ),
        (Output.json_schema(json.dumps({"const": "é"}, ensure_ascii=False)), '"é"', '"e"'),
    ],
)
def test_what_a_structure_means(
    vocabulary: LLTokenizer, output: Output, right: str, wrong: str
) -> None:
    assert matches(vocabulary, output, right)
    assert not matches(vocabulary, output, wrong)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (Output.json_schema("{"), "is no JSON"),
        (Output.json_schema("[" * 100_000), "nested too deeply"),
        (Output.json_schema("true"), "must be a JSON object"),
        (Output.json_schema({"type": "strin"}), "Invalid type: strin"),
        (Output.json_schema({"type": "array", "uniqueItems": True}), "uniqueItems"),
        (Output.json_schema({"not": {"type": "null"}}), r'\["not"\]'),
        (Output.json_schema({"type": "string", "format": "bogus"}), "Unknown format: bogus"),
        (Output.json_schema({"type": "string", "enum": []}), "Unsatisfiable"),
        (Output.json_schema({"$ref": "file:///etc/passwd"}), "not present"),
        (Output.json_schema({"$ref": "#"}), "no text meets it"),
        (Output.regex("["), "unclosed character class"),
        (Output.regex("(?=a)b"), "look-around"),
        (Output.regex(r"(a)\1"), "backreferences"),
        (Output.choice([]), "at least one"),
        (Output.choice(["a", ""]), "no empty text"),
        (Output.grammar("what is this"), "is no grammar"),
        (Output.grammar("start: x"), 'unknown name: "x"'),
        (Output.grammar("start: start"), "no text meets it"),
        (Output.grammar("root ::= " + "(" * 20_000), "is no grammar"),
        (Output.grammar("start: " + "(" * 20_000), "too deeply nested"),
    ],
)
def test_refusals_say_why(vocabulary: LLTokenizer, output: Output, reason: str) -> None:
    with pytest.raises(GrammarRefused, match=reason) as caught:
        compile_grammar(vocabulary, output)
    assert "\n" not in str(caught.value)


def test_logits_without_a_token_are_masked(vocabulary: LLTokenizer) -> None:
    mask = matcher_of(vocabulary, Output.regex(".*")).mask(VOCAB_SIZE + 7)
    assert len(mask) == VOCAB_SIZE + 7
    assert mask[ord("a")]
    assert not mask[END + 2 :].any()


def test_a_settled_form_forces_what_lies_between_values(vocabulary: LLTokenizer) -> None:
    forced = matcher_of(vocabulary, Output.json_schema(PERSON)).forced()
    assert vocabulary.decode_str(list(forced)).startswith('{"name": ')


def test_a_token_that_is_not_allowed_fails(vocabulary: LLTokenizer) -> None:
    matcher = matcher_of(vocabulary, Output.regex("ab"))
    with pytest.raises(MatcherFailed):
        matcher.consume((ord("z"),))
    assert not matcher.is_complete


@pytest.mark.parametrize(
    "output",
    [
        Output.json_schema(PERSON),
        Output.json_schema(PERSON, any_whitespace=True),
        Output.json_object(),
        Output.regex("(red|redder|age12)*é?"),
        Output.choice(["name", "names", "na12"]),
        Output.grammar('start: (A | B)+\nA: "red" | "redder"\nB: /[0-9]+/'),
    ],
)
def test_a_mask_depends_on_the_tokens_alone(vocabulary: LLTokenizer, output: Output) -> None:
    """Whatever was asked, tried and taken back before."""
    generator = random.Random(output.text)
    start = matcher_of(vocabulary, output)
    for _ in range(6):
        used, text = start.fork(), []
        for _ in range(25):
            fresh = start.fork()
            fresh.consume(text)
            if fresh.is_complete:
                assert used.is_complete
                break
            _bother(used, generator)
            expected = _masked(fresh)
            assert (_masked(used) == expected).all()
            assert used.is_complete == fresh.is_complete
            text.append(int(generator.choice(np.flatnonzero(expected))))
            if text[-1] == END:
                break
            used.consume(text[-1:])


def _bother(matcher: GrammarMatcher, generator: random.Random) -> None:
    count = 0
    for _ in range(generator.randrange(4)):
        matcher.forced()
        matcher.allows(generator.randrange(END))
        choices = [t for t in np.flatnonzero(_masked(matcher)).tolist() if t != END]
        if not choices or matcher.is_complete:
            break
        matcher.consume((generator.choice(choices),))
        count += 1
    if count:
        matcher.rollback(count)


def test_a_tokenizer_that_tells_no_bytes_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError):
        load_vocabulary(tmp_path / "tokenizer.json")
