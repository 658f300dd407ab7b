from __future__ import annotations

from pathlib import Path

import pytest

from dspark.training.prompt_files import PASSAGE_TOKENS, read_prompts
from dspark.training.prompt_layout import PromptLayout

LAYOUTS = [PromptLayout("<", ">")]


def encode(text: str) -> list[int]:
    return [ord(character) for character in text]


def read(path: Path, max_prompt_tokens: int = 100) -> list[str]:
    prompts = read_prompts(path, LAYOUTS, encode, max_prompt_tokens)
    return ["".join(map(chr, prompt)) for prompt in prompts]


def test_lines_have_a_prompt_or_a_users_words(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "as it is"}\n\n{"user": "hello", "kind": "x"}\n')
    assert read(path) == ["as it is", "<hello>"]
    assert read(path, max_prompt_tokens=7) == ["<hello>"]


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"prompt": 3}', "{}"])
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"user": "fine"}\n' + line + "\n")
    with pytest.raises(ValueError, match=r"p\.jsonl:2: "):
        read(path)


def test_a_text_is_cut_into_passages_with_room_between(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    text = "".join(chr(ord("a") + place % 26) for place in range(5 * PASSAGE_TOKENS))
    path.write_text(text)
    size = PASSAGE_TOKENS
    assert read(path) == [text[:size], text[2 * size : 3 * size], text[4 * size :]]
    path.write_text("short")
    assert read(path) == []
