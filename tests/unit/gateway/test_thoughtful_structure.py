"""What a structured output may be thought before, and that nothing else about it changes."""

from __future__ import annotations

import pytest

from dspark.gateway.parsing.think_tags import CLOSING, MARKS, OPENING, ReasoningSplitter, Stage
from dspark.structured_output import StructuredOutput

llguidance = pytest.importorskip("llguidance")

from dspark.gateway.parsing.thoughtful_structure import behind_thought  # noqa: E402
from dspark.grammars.compilation import compile_grammar  # noqa: E402
from dspark.grammars.refusal import GrammarRefused  # noqa: E402
from harness.marked_vocabulary import MarkedVocabulary  # noqa: E402

VOCABULARY = MarkedVocabulary(MARKS)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
# An output of each kind, texts that are one and texts that are none.
CASES = {
    "schema": (StructuredOutput.json_schema(SCHEMA), ['{"a": 1}'], ['{"a": "x"}', '{"a":  1}']),
    "spaces": (
        StructuredOutput.json_schema(SCHEMA, any_whitespace=True),
        ['{"a":   1}', '{"a": 1}'],
        ['{"a": "x"}'],
    ),
    "object": (StructuredOutput.json_object(), ['{"b": [1, 2]}'], ["[1]", "{"]),
    "regex": (StructuredOutput.regex(r"[/}]\n?a/[0-9]{2}"), ["/a/12", "}\na/34"], ["a/12", "/a/1"]),
    "choice": (StructuredOutput.choice(["yes", 'n"o', "}"]), ["yes", 'n"o', "}"], ["ye", "yes "]),
    "lark": (StructuredOutput.grammar('start: "a" x // }\nx: /}+/'), ["a}", "a}}"], ["a", "}"]),
    "gbnf": (StructuredOutput.grammar('root ::= "a" b\nb ::= [0-9]+'), ["a1", "a22"], ["a", "1"]),
}
# For each stage in which an answer begins: what may be thought, and what may not.
THOUGHTS = {
    Stage.CONTENT: (("",), (f"{OPENING}hm{CLOSING}",)),
    Stage.OPENING: (("", f"{OPENING}\nhm {{ }}\n{CLOSING}\n\n"), (f"hm{CLOSING}", f"{OPENING}hm")),
    Stage.REASONING: ((f"hm {{ }}{CLOSING}\n", CLOSING, f"{OPENING}hm{CLOSING}"), ("", "hm")),
}


def takes(output: StructuredOutput, stage: Stage, text: str, special: bool) -> bool:
    """Whether the text is an answer, byte by byte but for tags that are tokens of their own."""
    whole = behind_thought(output, stage, VOCABULARY.ids.get if special else {}.get)
    matcher = compile_grammar(VOCABULARY.tokenizers[special], whole)
    return VOCABULARY.takes(matcher, text, special)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("name", CASES)
def test_a_thought_may_come_before_an_output_of_any_kind(
    name: str, stage: Stage, special: bool
) -> None:
    output, good, bad = CASES[name]
    allowed, refused = THOUGHTS[stage]
    for thought in allowed:
        for text in good:
            assert takes(output, stage, thought + text, special), thought + text
            splitter = ReasoningSplitter(stage)
            pieces = splitter.push(thought + text), splitter.flush()
            assert "".join(piece.content for piece in pieces) == text
        for text in bad:
            assert not takes(output, stage, thought + text, special), thought + text
    for thought in refused:
        assert not takes(output, stage, thought + good[0], special), thought + good[0]


@pytest.mark.parametrize(
    "output",
    [StructuredOutput.json_schema("{"), StructuredOutput.json_schema("[]")],
    ids=["no JSON", "no object"],
)
def test_what_is_refused_without_a_thought_is_refused_with_one(output: StructuredOutput) -> None:
    with pytest.raises(GrammarRefused):
        behind_thought(output, Stage.REASONING, {}.get)


@pytest.mark.parametrize(
    "text", ['start: "a" }\nb: %lark { start: "c"', "start: (", '{"grammars": []}']
)
def test_a_grammar_that_is_none_stays_none(text: str) -> None:
    with pytest.raises(GrammarRefused):
        whole = behind_thought(StructuredOutput.grammar(text), Stage.REASONING, {}.get)
        compile_grammar(VOCABULARY.tokenizers[False], whole)
