"""Grammars that force calls take what the format's parser reads, and nothing else."""

from __future__ import annotations

import pytest

from dspark.gateway.parsing.call_formats import FORMATS
from dspark.gateway.parsing.call_parser import CallParser
from dspark.gateway.parsing.tool_grammar import required_calls
from dspark.gateway.tool_choice import Tool

llguidance = pytest.importorskip("llguidance")

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


def _takes(grammar: str, text: str) -> bool:
    """Whether the grammar derives the whole text, byte by byte."""
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar))
    assert not matcher.is_error(), matcher.get_error()
    ids = list(text.encode())
    return matcher.validate_tokens(ids) == len(ids) and _ends(matcher, ids)


def _ends(matcher: llguidance.LLMatcher, ids: list[int]) -> bool:
    return matcher.consume_tokens(ids) and matcher.is_accepting()


def _grammar(name: str, *tools: Tool, several: bool = True) -> str:
    return required_calls(name, tools, allows_several=several, special_id=lambda mark: None)


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
    assert grammar.startswith('start: <[5]> "[" call "]"')


@pytest.mark.parametrize("parameters", [{}, {"properties": {"a": {"type": "integer"}}}])
def test_arguments_are_an_object_though_their_schema_forgets_to_say(
    parameters: dict[str, object],
) -> None:
    grammar = _grammar("llama3", Tool("f", None, parameters))
    assert _takes(grammar, '{"name": "f", "parameters": {"a": 1}}')
    assert not _takes(grammar, '{"name": "f", "parameters": [1]}')
    assert not _takes(grammar, '{"name": "f", "parameters": 1}')
