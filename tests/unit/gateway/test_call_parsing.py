"""Calls of tools in answers: found, told apart from text, and the same however tokens come."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.gateway.parsing.call_formats import FORMATS, format_name
from dspark.gateway.parsing.call_parser import CallParser, ParsedText
from dspark.tool_calls import ToolCall, joined_calls, merged_deltas

TOOLS = ("f", "get_weather", "ns.g")
F = ToolCall("c0", "f", '{"a": [1, "}</tool_call>"]}')
F_OBJECT = '{"name": "f", "arguments": {"a": [1, "}</tool_call>"]}}'
G_OBJECT = '{"arguments": {}, "id": 7, "name": "ns.g"}'
ROME = '{"city": "R\\u00f6m \\"x\\"", "days": -1.5e3}'


def _parse(name: str, pieces: list[str], **options: Any) -> tuple[str, tuple[ToolCall, ...], int]:
    parser = CallParser(FORMATS[name], TOOLS, lambda index: f"c{index}", **options)
    parsed = ParsedText()
    for piece in pieces:
        parsed = parsed.joined(parser.push(piece))
    parsed = parsed.joined(parser.flush())
    return parsed.content, joined_calls(parsed.calls), parser.num_calls


def _calls(*named: tuple[str, str]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(f"c{index}", name, arguments) for index, (name, arguments) in enumerate(named)
    )


CASES: list[tuple[str, str, str, tuple[ToolCall, ...]]] = [
    ("hermes", f"<tool_call>\n{F_OBJECT}\n</tool_call>", "", (F,)),
    ("hermes", f"Let me see.\n\n<tool_call>{F_OBJECT}</tool_call>\n", "Let me see.", (F,)),
    (
        "hermes",
        f"A\n<tool_call>\n{F_OBJECT}\n</tool_call>\n<tool_call>\n{G_OBJECT}\n</tool_call>\n\nB",
        "A\n\nB",
        (F, ToolCall("c1", "ns.g", "{}")),
    ),
    # The closing mark is missing, as where a stop token comes first.
    ("hermes", f"<tool_call>{F_OBJECT}", "", (F,)),
    ("hermes", '<tool_call>{"name": "f"}</tool_call>', "", _calls(("f", "{}"))),
    ("hermes", f"<tool_call><tool_call>{F_OBJECT}</tool_call>", "<tool_call>", (F,)),
    ("mistral", f"[TOOL_CALLS][{F_OBJECT}]", "", (F,)),
    (
        "mistral",
        f"Text [1].\n[TOOL_CALLS] [{F_OBJECT}, {G_OBJECT}]",
        "Text [1].",
        (F, ToolCall("c1", "ns.g", "{}")),
    ),
    (
        "mistral",
        f"[TOOL_CALLS]get_weather[ARGS]{ROME}[TOOL_CALLS]f[CALL_ID]abc[ARGS]{{}}",
        "",
        _calls(("get_weather", ROME), ("f", "{}")),
    ),
    ("mistral", f"[TOOL_CALLS]get_weather{ROME} done", " done", _calls(("get_weather", ROME))),
    (
        "llama3",
        f'{{"name": "get_weather", "parameters": {ROME}}}',
        "",
        _calls(("get_weather", ROME)),
    ),
    (
        "llama3",
        '<|python_tag|>{"type": "function", "name": "f", "parameters": {}}; '
        '{"name": "ns.g", "parameters": {"a": null}}',
        "",
        _calls(("f", "{}"), ("ns.g", '{"a": null}')),
    ),
    (
        "llama3",
        'I will.\n{"name": "f", "parameters": {}}\nThen.',
        "I will.\nThen.",
        _calls(("f", "{}")),
    ),
    (
        "llama3",
        "[get_weather(city='R, \\'x\\')', n=[1, {'k': None}], b=True), ns.g()]",
        "",
        _calls(("get_weather", '{"city": "R, \'x\')", "n": [1, {"k": null}], "b": true}'),
               ("ns.g", "{}")),
    ),
]  # fmt: skip
# What is no call comes back to the letter.
TEXTS: list[tuple[str, str]] = [
    *[(name, text) for name in FORMATS for text in ("", " ", "Hello, \n world. \n", "a < b [1] {")],
    ("hermes", '<tool_call>\n{"name": "f", "arguments": {"a": 1,}}\n</tool_call>'),
    ("hermes", '<tool_call>{"name": "f", "arguments": "{}"}</tool_call> '),
    ("hermes", '<tool_call>{"name": 3, "arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
    ("hermes", "<tool_call>{}</tool_call>"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": "\\x"}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 01}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "f", "arguments": ' + '{"a":' * 99 + "1" + "}" * 100),
    ("hermes", '\n <tool_call> {"name": "f", "argu'),
    ("hermes", "<tool_cal"),
    ("mistral", "[TOOL_CALLS]"),
    ("mistral", "[TOOL_CALLS][]"),
    ("mistral", "[TOOL_CALLS]f(1)"),
    ("llama3", '{"name": "Bob", "parameters": {}}'),
    ("llama3", '{"name": "f"}'),
    ("llama3", 'Call {"name": "f", "parameters": {}}'),
    ("llama3", "[f(a=1, a=2)]"),
    ("llama3", "[f(a={1, 2})]"),
    ("llama3", "[f(a=b'x')]"),
    ("llama3", "[f(a=1e999)]"),
    ("llama3", "[f(a=open('x'))]"),
    ("llama3", "[1] and [other()]"),
    ("llama3", "<|python_tag|>print(1)"),
]


def _cut(text: str, cuts: list[int]) -> list[str]:
    marks = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(marks)]


CUTS = st.lists(st.integers(0, 200), max_size=12)


@pytest.mark.parametrize(("name", "text", "content", "calls"), CASES)
@given(cuts=CUTS, streams=st.booleans())
def test_calls_and_text_around_them(
    name: str, text: str, content: str, calls: tuple[ToolCall, ...], cuts: list[int], streams: bool
) -> None:
    found = _parse(name, _cut(text, cuts), streams_arguments=streams)
    assert found == (content, calls, len(calls))
    for call in calls:
        assert isinstance(json.loads(call.arguments), dict)


@pytest.mark.parametrize(("name", "text"), TEXTS)
@given(cuts=CUTS)
def test_what_is_no_call_is_text_to_the_letter(name: str, text: str, cuts: list[int]) -> None:
    assert _parse(name, _cut(text, cuts)) == (text, (), 0)


@pytest.mark.parametrize("name", FORMATS)
@given(
    parts=st.lists(
        st.sampled_from(
            ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[", "]", "{", "}", '"name"', ":", "f",
             '"f"', ",", '"arguments"', '"parameters"', "{}", " ", "\n", "(", ")", "=", "'", ";",
             "\\", "<|python_tag|>", F_OBJECT, "é", "1"]
        ),
        max_size=30,
    ),
    cuts=CUTS,
    streams=st.booleans(),
)  # fmt: skip
def test_any_text_gives_the_same_however_it_comes(
    name: str, parts: list[str], cuts: list[int], streams: bool
) -> None:
    text = "".join(parts)
    whole = _parse(name, [text], streams_arguments=streams)
    assert _parse(name, _cut(text, cuts), streams_arguments=streams) == whole
    assert _parse(name, list(text), streams_arguments=streams) == whole


@given(cuts=CUTS)
def test_streamed_arguments_that_go_wrong_stay_and_the_rest_is_text(cuts: list[int]) -> None:
    text = 'Hi. <tool_call>{"name": "f", "arguments": {"a": 1,}} x <tool_call>' + F_OBJECT
    content, calls, num_calls = _parse("hermes", _cut(text, cuts), streams_arguments=True)
    assert content == "Hi. }} x"
    assert calls == (ToolCall("c0", "f", '{"a": 1,'), ToolCall("c1", F.name, F.arguments))
    assert num_calls == 1


def test_arguments_are_streamed_while_they_come() -> None:
    parser = CallParser(FORMATS["hermes"], TOOLS, str, streams_arguments=True)
    deltas = [parser.push(piece).calls for piece in ('<tool_call>{"name": "f", ', '"arguments":')]
    assert deltas == [(), ()]
    (head, first) = parser.push(' {"a": "on').calls
    assert (head.name, head.id, head.arguments) == ("f", "0", "")
    assert first.arguments == '{"a": "on'
    assert [delta.arguments for delta in parser.push('e"').calls] == ['e"']
    assert [delta.arguments for delta in parser.push("}} ").calls] == ["}"]
    assert merged_deltas([head, first])[0].arguments == '{"a": "on'


@pytest.mark.parametrize("name", FORMATS)
@given(cuts=CUTS, streams=st.booleans())
def test_after_the_last_call_that_may_be_nothing_is_read(
    name: str, cuts: list[int], streams: bool
) -> None:
    text = next(text for case, text, _, calls in CASES if case == name and len(calls) == 2)
    content, calls, num_calls = _parse(
        name, _cut(text, cuts), streams_arguments=streams, max_calls=1
    )
    assert (len(calls), num_calls) == (1, 1)
    assert "B" not in content


def test_ids_are_the_requests_own_and_of_the_formats_kind() -> None:
    for name, call_format in FORMATS.items():
        ids = {call_format.call_id(request, index) for request in "ab" for index in range(3)}
        assert len(ids) == 6
        assert all(len(i) == 9 and i.isalnum() for i in ids) or name != "mistral"


@pytest.mark.parametrize(
    ("choice", "template", "tokens", "expected"),
    [
        ("auto", "... <tool_call> ...", [], "hermes"),
        ("auto", "[TOOL_CALLS]", [], "mistral"),
        ("auto", "<|python_tag|>", ["[TOOL_CALLS]"], "llama3"),
        ("auto", "plain", ["<|python_tag|>"], "llama3"),
        ("auto", "plain", [], "none"),
        ("none", "<tool_call>", ["<tool_call>"], "none"),
        ("mistral", "<tool_call>", [], "mistral"),
    ],
)
def test_the_format_is_found_by_template_then_vocabulary(
    choice: str, template: str, tokens: list[str], expected: str
) -> None:
    assert format_name(choice, template, lambda token: token in tokens) == expected
