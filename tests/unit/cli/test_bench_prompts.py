"""The prompts that the repository measures with."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from dspark.cli.benchmark.plan import load_prompts
from dspark.training.overlap import Overlap
from dspark.training.tasks import ABOUT_SUBJECTS, SUBJECT, SUBJECTS, TEXT, WITH_TEXT
from harness.repository import ROOT

BENCH = ROOT / "tests" / "bench"
TEN, UNSEEN = BENCH / "prompts.json", BENCH / "unseen_prompts.json"
# The default model's chat form of one user message.
BEGIN, END = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"


def entries(path: Path) -> list[dict[str, str]]:
    read: list[dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return read


def users(path: Path) -> list[str]:
    return [entry["user"] for entry in entries(path)]


@pytest.mark.parametrize("path", [TEN, UNSEEN], ids=lambda path: path.name)
def test_a_prompt_is_the_users_text_in_the_models_form(path: Path) -> None:
    for entry in entries(path):
        assert set(entry) == {"kind", "user", "prompt"}
        assert entry["prompt"] == BEGIN + entry["user"] + END
        assert entry["user"] == entry["user"].strip() != ""
        assert "<|" not in entry["user"]


@pytest.mark.parametrize("path", [TEN, UNSEEN], ids=lambda path: path.name)
def test_the_benchmarks_read_every_prompt(path: Path) -> None:
    read = [(prompt.kind, prompt.prompt) for prompt in load_prompts(path)]
    assert read == [(entry["kind"], entry["prompt"]) for entry in entries(path)]


def test_each_ten_in_a_row_have_one_prompt_of_every_kind() -> None:
    kinds = [entry["kind"] for entry in entries(TEN)]
    unseen = [entry["kind"] for entry in entries(UNSEEN)]
    assert len(set(kinds)) == len(kinds) == 10
    assert Counter(unseen) == dict.fromkeys(kinds, 10)
    assert all(set(unseen[at : at + 10]) == set(kinds) for at in range(0, len(unseen), 10))


def test_unseen_prompts_are_unlike_one_another() -> None:
    texts = users(UNSEEN)
    assert len(set(texts)) == len(texts) == 100
    assert not [pair for pair in combinations(texts, 2) if Overlap(pair[:1]).touches(pair[1])]


def test_unseen_prompts_are_unlike_what_the_repository_tunes_on() -> None:
    tasks = [task.replace(SUBJECT, subject) for task in ABOUT_SUBJECTS for subject in SUBJECTS]
    tasks += [task.replace(TEXT, "") for task in WITH_TEXT]
    known = Overlap([*users(TEN), *tasks])
    assert not [text for text in users(UNSEEN) if known.touches(text)]


@pytest.mark.parametrize("page", ["benchmarks.md", "simulator.md"])
def test_the_documented_commands_name_prompts_that_exist(page: str) -> None:
    words = (ROOT / "docs" / page).read_text().split()
    named = {ROOT / after for word, after in pairwise(words) if word == "--prompts"}
    assert named
    assert named <= {TEN, UNSEEN}
