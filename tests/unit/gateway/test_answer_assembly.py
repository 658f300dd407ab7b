"""From tokens to reasoning, content and calls: the same however many tokens come at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.gateway.detokenizer import IncrementalDetokenizer
from dspark.gateway.parsing.answer_assembly import AnswerAssembler
from dspark.gateway.parsing.answer_style import AnswerStyle, CallStyle
from dspark.gateway.parsing.call_formats import FORMATS
from dspark.gateway.parsing.think_tags import Stage
from dspark.gateway.text_assembly import TextAssembler, TextChunk
from dspark.generation import TokenChunk
from dspark.logprobs import TokenLogprobs
from dspark.tool_calls import joined_calls
from harness.byte_tokenizer import EOS, byte_tokenizer

TOKENIZER = byte_tokenizer([b"</think>", b"}}</tool_call>", b"<tool_call>"])
END = TOKENIZER.token_to_id(EOS)
CLOSE, CALL_END, CALL_START = 256, 257, 258
CALL = [CALL_START, *b'{"name": "f", "arguments": {"a": "\xc3\xbc"', CALL_END]
ANSWER = [*b"Hm\xe2\x82\xac\n", CLOSE, *b"\nLet me.", *CALL, *b"\n", *CALL, *b"Done.", END]


def _assembler(stops: Sequence[str] = (), **style: object) -> AnswerAssembler:
    decoder = IncrementalDetokenizer(TOKENIZER.decode, {END})
    text = TextAssembler(decoder, {END}, stops)
    calls = CallStyle(FORMATS["hermes"], frozenset({"f"}), **style)  # type: ignore[arg-type]
    return AnswerAssembler(text, AnswerStyle(calls, Stage.REASONING), "r")


def _run(assembler: AnswerAssembler, cuts: Sequence[int]) -> TextChunk:
    whole = TextChunk("")
    marks = [0, *sorted({cut for cut in cuts if cut < len(ANSWER)} - {0}), len(ANSWER)]
    for start, end in pairwise(marks):
        ids = tuple(ANSWER[start:end])
        told = tuple(TokenLogprobs(-token / 8, 1) for token in ids)
        prompt = (TokenLogprobs(-1.0, 1),) if start == 0 else ()
        chunk = TokenChunk(ids, len(ids) - 1, logprobs=told, prompt_logprobs=prompt)
        whole = whole.joined(assembler.push(chunk))
        if assembler.is_over:
            return whole
    return whole.joined(assembler.last_chunk())


CUTS = st.lists(st.integers(0, len(ANSWER)))


@given(cuts=CUTS, streams=st.booleans())
def test_all_parts_of_an_answer(cuts: list[int], streams: bool) -> None:
    assembler = _assembler(streams_arguments=streams)
    whole = _run(assembler, cuts)
    assert (whole.reasoning, whole.text) == ("Hm€", "Let me.Done.")
    assert [(c.name, c.arguments) for c in joined_calls(whole.calls)] == [("f", '{"a": "ü"}')] * 2
    assert list(whole.token_ids) == ANSWER
    assert [-8 * told.logprob for told in whole.logprobs] == ANSWER
    assert len(whole.prompt_logprobs) == 1
    assert assembler.has_calls and assembler.num_tokens == len(ANSWER)
    # "Hm", three bytes of a character, a line break, and the tag
    assert assembler.reasoning_tokens == 7


@given(cuts=CUTS)
def test_an_answer_with_one_call_ends_with_the_token_that_completes_it(cuts: list[int]) -> None:
    assembler = _assembler(max_calls=1)
    whole = _run(assembler, cuts)
    assert whole.text == "Let me."
    assert len(joined_calls(whole.calls)) == 1
    end = ANSWER.index(CALL_END) + 1
    assert list(whole.token_ids) == ANSWER[:end]
    assert len(whole.logprobs) == len(whole.offsets) == end
    assert assembler.is_over and assembler.stop_string is None
    assert assembler.num_tokens == end


@given(cuts=CUTS)
def test_a_stop_string_ends_all_parts(cuts: list[int]) -> None:
    assembler = _assembler(["name"])
    whole = _run(assembler, cuts)
    assert (whole.reasoning, whole.text) == ("Hm€", 'Let me.<tool_call>{"')
    assert assembler.stop_string == "name"
    assert not assembler.has_calls


@pytest.mark.parametrize("start", Stage)
def test_reasoning_that_is_not_shown_is_counted(start: Stage) -> None:
    text = TextAssembler(IncrementalDetokenizer(TOKENIZER.decode, {END}), {END})
    assembler = AnswerAssembler(text, AnswerStyle(None, start, shows_reasoning=False), "r")
    ids = (*b"<think>a", CLOSE, *b"b")
    whole = assembler.push(TokenChunk(ids)).joined(assembler.last_chunk())
    shown = "<think>a</think>b" if start is Stage.CONTENT else "b"
    assert (whole.reasoning, whole.text) == ("", shown)
    assert assembler.reasoning_tokens == (0 if start is Stage.CONTENT else 9)
