"""The output of the Responses API: items in their order, the same however tokens come."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.gateway.detokenizer import IncrementalDetokenizer
from dspark.gateway.parsing.answer_assembly import AnswerAssembler
from dspark.gateway.parsing.answer_style import AnswerStyle, CallStyle
from dspark.gateway.parsing.call_formats import FORMATS
from dspark.gateway.parsing.think_tags import Stage
from dspark.gateway.responses_output import ResponsesOutput
from dspark.gateway.text_assembly import TextAssembler, TextChunk
from dspark.generation import TokenChunk
from dspark.tool_calls import ToolCallDelta
from harness.byte_tokenizer import EOS, byte_tokenizer

# One token that ends a call and begins another: its chunk has two calls and the text between them.
BETWEEN = b'{"a": 1}}</tool_call>\nSo: <tool_call>{"name": "f", '
TOKENIZER = byte_tokenizer([BETWEEN, b"</think>"])
END = TOKENIZER.token_to_id(EOS)
CALL_START = b'<tool_call>{"name": "f", "arguments": '
ANSWER = [
    *b"Hm.",
    257,
    *CALL_START,
    256,
    *b'"arguments": {"b": "\xc3\xbc"}}</tool_call>Done.',
    END,
]
PARTS = [
    ("reasoning", "Hm."),
    ("function_call", '{"a": 1}'),
    ("message", "\nSo:"),
    ("function_call", '{"b": "ü"}'),
    ("message", "Done."),
]


def _chunks(cuts: Sequence[int], streams: bool) -> list[TextChunk]:
    text = TextAssembler(IncrementalDetokenizer(TOKENIZER.decode, {END}), {END})
    calls = CallStyle(FORMATS["hermes"], frozenset({"f"}), streams_arguments=streams)
    assembler = AnswerAssembler(text, AnswerStyle(calls, Stage.REASONING), "r")
    marks = [0, *sorted({cut for cut in cuts if cut < len(ANSWER)} - {0}), len(ANSWER)]
    pieces = [TokenChunk(tuple(ANSWER[a:b]), 0) for a, b in pairwise(marks)]
    return [*map(assembler.push, pieces), assembler.last_chunk()]


def _said(item: dict[str, Any]) -> tuple[str, str]:
    inside = item["arguments"] if "arguments" in item else item["content"][0]["text"]
    return item["type"], inside


@given(cuts=st.lists(st.integers(0, len(ANSWER))), streams=st.booleans(), joins=st.booleans())
def test_the_order_of_items_is_that_of_the_text(
    cuts: list[int], streams: bool, joins: bool
) -> None:
    chunks = _chunks(cuts, streams)
    if joins:
        whole = TextChunk("")
        for chunk in chunks:
            whole = whole.joined(chunk)
        chunks = [whole]
    output = ResponsesOutput("r")
    for chunk in chunks:
        output.add(chunk)
    output.end(is_cut=False)
    assert [_said(item) for item in output.items] == PARTS
    assert [item["id"] for item in output.items] == [
        "rs_r_0",
        "fc_r_1",
        "msg_r_2",
        "fc_r_3",
        "msg_r_4",
    ]
    assert {item["status"] for item in output.items} == {"completed"}


@pytest.mark.parametrize("arguments", ["", "{", '{"a": 1', "[" * 100_000])
def test_a_call_that_goes_wrong_is_incomplete_though_text_follows(arguments: str) -> None:
    output = ResponsesOutput("r")
    head = (ToolCallDelta(0, "c", "f", arguments),)
    output.add(TextChunk("", calls=head, call_places=(0,)))
    output.add(TextChunk("}</tool_call>"))
    output.end(is_cut=True)
    assert [item["status"] for item in output.items] == ["incomplete", "incomplete"]
    assert output.items[0]["arguments"] == arguments


def test_an_answer_of_nothing_is_an_empty_message() -> None:
    output = ResponsesOutput("r")
    output.add(TextChunk(""))
    names = [name for name, _ in output.end(is_cut=False)]
    assert names == [
        "output_item.added",
        "content_part.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ]
    assert [_said(item) for item in output.items] == [("message", "")]
