"""Grammars that force calls take what the format's parser reads, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dspark.gateway.parsing.call_formats import FORMATS
from dspark.gateway.parsing.call_parser import CallParser
from dspark.gateway.parsing.think_tags import CLOSING, MARKS, OPENING, ReasoningSplitter, Stage
from dspark.gateway.parsing.tool_grammar import marks_calls, required_calls, strict_calls
from dspark.gateway.tool_choice import Tool

llguidance = pytest.importorskip("llguidance")

from harness.marked_vocabulary import MarkedVocabulary  # noqa: E402

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = (Tool("weather", "of a city", CITY), Tool("now"))
WEATHER = {
    "hermes": '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>',
    "mistral": '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome"}}]',
    "llama3": '{"name": "weather", "parameters": {"city": "Rome"}}',
}
BOTH = {
    "hermes": WEATHER["hermes"]
    + '\n<tool_call>\n{"name": "now", "arguments": {"a": 1}}\n</tool_call>',
    "mistral": WEATHER["mistral"][:-1] + ', {"name": "now", "arguments": {"a": 1}}]',
    "llama3": WEATHER["llama3"] + '; {"name": "now", "parameters": {"a": 1}}',
}


# Marks that may be special tokens, and a vocabulary in which they are.
SPECIAL = ("[TOOL_CALLS]", "<tool_call>", "</tool_call>", *MARKS)
VOCABULARY = MarkedVocabulary(SPECIAL)
IDS = VOCABULARY.ids
STRICT = (replace(TOOLS[0], strict=True), TOOLS[1])
MARKED = [name for name in FORMATS if marks_calls(name)]


def _takes(grammar: str, text: str, special: bool = False) -> bool:
    """Whether the grammar derives the whole text, byte by byte but for marks that are tokens."""
    lark = llguidance.LLMatcher.grammar_from_lark(grammar)
    matcher = llguidance.LLMatcher(VOCABULARY.tokenizers[special], lark)
    assert not matcher.is_error(), matcher.get_error()
    return VOCABULARY.takes(matcher, text, special)


def _grammar(name: str, *tools: Tool, several: bool = True) -> str:
    return required_calls(name, tools, allows_several=several, special_id=lambda mark: None)


def _strict(name: str, stage: Stage, special: bool) -> str:
    special_id = IDS.get if special else lambda mark: None
    return strict_calls(name, STRICT, allows_several=True, special_id=special_id, reasoning=stage)


def _split(text: str, stage: Stage) -> tuple[str, str]:
    splitter = ReasoningSplitter(stage)
    parts = splitter.push(text), splitter.flush()
    return "".join(p.reasoning for p in parts), "".join(p.content for p in parts)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_forced_is_what_is_parsed(name: str) -> None:
    grammar = _grammar(name, *TOOLS)
    for text, count in ((WEATHER[name], 1), (BOTH[name], 2)):
        assert _takes(grammar, text)
        parser = CallParser(FORMATS[name], ("weather", "now"), str)
        parsed = parser.push(text).joined(parser.flush())
        assert (parser.num_calls, parsed.content) == (count, "")


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_not_forced_is_refused(name: str) -> None:
    grammar = _grammar(name, *TOOLS)
    for text in ("", "Hello", WEATHER[name] + " and", WEATHER[name].replace("weather", "other")):
        assert not _takes(grammar, text)
    assert not _takes(grammar, WEATHER[name].replace('"Rome"', "3"))
    assert not _takes(_grammar(name, *TOOLS, several=False), BOTH[name])


@pytest.mark.parametrize("name", FORMATS)
def test_a_named_function_is_the_only_one(name: str) -> None:
    assert _takes(_grammar(name, TOOLS[0]), WEATHER[name])
    assert not _takes(_grammar(name, TOOLS[1]), WEATHER[name])


def test_a_mark_that_is_a_special_token_is_asked_for_by_its_id() -> None:
    grammar = required_calls("mistral", TOOLS, allows_several=False, special_id={}.get)
    assert '"[TOOL_CALLS]"' in grammar
    ids = {"[TOOL_CALLS]": 5}
    grammar = required_calls("mistral", TOOLS, allows_several=False, special_id=ids.get)
    assert grammar.startswith('start: calls\ncalls: <[5]> "[" call "]"\n')


@pytest.mark.parametrize("parameters", [{}, {"properties": {"a": {"type": "integer"}}}])
def test_arguments_are_an_object_though_their_schema_forgets_to_say(
    parameters: dict[str, object],
) -> None:
    grammar = _grammar("llama3", Tool("f", None, parameters))
    assert _takes(grammar, '{"name": "f", "parameters": {"a": 1}}')
    assert not _takes(grammar, '{"name": "f", "parameters": [1]}')
    assert not _takes(grammar, '{"name": "f", "parameters": 1}')


# For each stage in which an answer begins: what it may think, and what it may not.
THOUGHTS = {
    Stage.CONTENT: (("",), (f"{OPENING}hm{CLOSING}",)),
    Stage.OPENING: (("", f"{OPENING}\nhm\n{CLOSING}\n\n"), (f"hm{CLOSING}", f"{OPENING}hm")),
    Stage.REASONING: ((f"hm{CLOSING}\n\n", CLOSING, f"{OPENING}hm{CLOSING}"), ("", "hm")),
}
BOTH_KINDS = pytest.mark.parametrize("special", [False, True])


@BOTH_KINDS
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("name", FORMATS)
def test_reasoning_comes_before_calls_that_are_forced(
    name: str, stage: Stage, special: bool
) -> None:
    special_id = IDS.get if special else lambda mark: None
    grammar = required_calls(
        name, TOOLS, allows_several=True, special_id=special_id, reasoning=stage
    )
    allowed, refused = THOUGHTS[stage]
    for thought in allowed:
        assert _takes(grammar, thought + BOTH[name], special), thought
        assert _split(thought + BOTH[name], stage)[1] == BOTH[name]
        assert not _takes(grammar, f"{thought}Well: {WEATHER[name]}", special)
    for thought in refused:
        assert not _takes(grammar, thought + WEATHER[name], special), thought


@BOTH_KINDS
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("name", MARKED)
def test_strict_calls_stand_in_free_text(name: str, stage: Stage, special: bool) -> None:
    grammar = _strict(name, stage, special)
    mark = FORMATS[name].marks[0]
    # A mark in a thought begins no call; one that is a token is no word of a thought.
    thought = f"a {'' if special else mark} b{CLOSING}"
    opening = OPENING if stage is Stage.OPENING else ""
    before = "" if stage is Stage.CONTENT else opening + thought
    wrong = WEATHER[name].replace('"Rome"', "3")
    for text in ("", "Hello < [ {", WEATHER[name], f"So: {BOTH[name]} and {BOTH[name]}\n"):
        assert _takes(grammar, before + text, special), text
    for text in (wrong, f"So: {BOTH[name]} and {wrong}", f"{mark}x", f"So {mark}"):
        assert not _takes(grammar, before + text, special), text


@BOTH_KINDS
@pytest.mark.parametrize("name", MARKED)
def test_reasoning_may_be_all_of_an_answer_with_strict_calls(name: str, special: bool) -> None:
    assert _takes(_strict(name, Stage.REASONING, special), "hm", special)
    assert _takes(_strict(name, Stage.OPENING, special), f"{OPENING}hm", special)
    assert _takes(_strict(name, Stage.OPENING, special), f"hm {WEATHER[name]}", special)


@pytest.mark.parametrize("name", MARKED)
def test_arguments_of_functions_that_are_not_strict_are_any_object(name: str) -> None:
    tools = (TOOLS[0], replace(TOOLS[1], strict=True))
    grammar = strict_calls(name, tools, allows_several=True, special_id=lambda mark: None)
    assert _takes(grammar, WEATHER[name].replace('"Rome"', "3"))
    assert not _takes(grammar, WEATHER[name].replace('{"city": "Rome"}', "3"))


def test_calls_that_nothing_marks_cannot_be_strict_in_free_text() -> None:
    with pytest.raises(ValueError, match="llama3"):
        strict_calls("llama3", STRICT, allows_several=True, special_id=lambda mark: None)
