"""Reasoning is told from the answer, to the same effect however tokens come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.gateway.parsing.reasoning_parsers import PARSERS, open_at_end, open_within
from dspark.gateway.parsing.think_tags import ReasoningSplitter, Stage

CASES = [
    (Stage.OPENING, "<think>\nSo\n\n1 < 2.\n</think>\n\nYes.\n", "So\n\n1 < 2.", "Yes.\n"),
    (Stage.OPENING, " \n<think></think>Yes </think>", "", "Yes </think>"),
    (Stage.OPENING, "  Yes <think>no</think>", "", "  Yes <think>no</think>"),
    (Stage.OPENING, "<thin", "", "<thin"),
    (Stage.OPENING, "<think>never ends\n</thi", "never ends\n</thi", ""),
    (Stage.REASONING, "\nSo\n</think>\nYes.", "So", "Yes."),
    (Stage.REASONING, "<think>\nSo</think>Yes.", "So", "Yes."),
    (Stage.REASONING, " So", " So", ""),
    (Stage.CONTENT, "<think>So</think>\n", "", "<think>So</think>\n"),
    *[(stage, "", "", "") for stage in Stage],
]


def _split(start: Stage, pieces: list[str]) -> tuple[str, str]:
    splitter = ReasoningSplitter(start)
    parts = [*map(splitter.push, pieces), splitter.flush()]
    return "".join(p.reasoning for p in parts), "".join(p.content for p in parts)


@pytest.mark.parametrize(("start", "text", "reasoning", "content"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_reasoning_and_content(
    start: Stage, text: str, reasoning: str, content: str, size: int
) -> None:
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    assert _split(start, pieces) == (reasoning, content)


@given(
    start=st.sampled_from(Stage),
    parts=st.lists(st.sampled_from(["<think>", "</think>", "\n", " ", "a", "<", "</think", "é"])),
    size=st.integers(1, 9),
)
def test_any_text_gives_the_same_however_it_comes(
    start: Stage, parts: list[str], size: int
) -> None:
    text = "".join(parts)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    assert _split(start, pieces) == _split(start, [text])


def test_reasoning_comes_as_it_is_thought() -> None:
    splitter = ReasoningSplitter(Stage.REASONING)
    assert [splitter.push(text).reasoning for text in ("So", " it\n", "is")] == [
        "So",
        " it",
        "\nis",
    ]


@pytest.mark.parametrize(
    ("name", "is_open", "stage"),
    [
        ("deepseek_r1", None, Stage.REASONING),
        ("deepseek_r1", True, Stage.REASONING),
        ("deepseek_r1", False, Stage.CONTENT),
        ("qwen3", None, Stage.OPENING),
        ("qwen3", True, Stage.REASONING),
        ("qwen3", False, Stage.CONTENT),
    ],
)
def test_where_an_answer_begins(name: str, is_open: bool | None, stage: Stage) -> None:
    assert PARSERS[name].start(is_open) is stage


def test_only_the_end_of_a_prompt_says_whether_reasoning_is_open() -> None:
    assert open_at_end("<|assistant|><think>\n") is True
    assert open_at_end("<|assistant|><think>\n\n</think>\n\n") is False
    assert open_at_end("what does <think> mean?<|assistant|>") is None
    assert open_within("<think>I am still") is True
    assert open_within("<think>I am</think>Yes") is False
    assert open_within("Yes") is None
