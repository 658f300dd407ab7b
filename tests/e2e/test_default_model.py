"""The default model, fetched and served as a first user does: same tokens with and without."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest
from tokenizers import Tokenizer

from dspark.cli.connection import add_connection_arguments, connected
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.models.prepare import prepare
from dspark.cli.progress import Progress
from dspark.client import Client

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
START, END = 1, 2
TURN = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = (
    TURN.format("Repeat this list and go on: one, two, three, one, two, three, one, two, three."),
    TURN.format('Write a JSON list of three users with the fields "name" and "age".'),
    TURN.format("Tell me a very short story about a lighthouse."),
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    parser = argparse.ArgumentParser()
    add_connection_arguments(parser)
    with connected(parser.parse_args(["--embedded", "--policy", "fixed"]), Progress()) as client:
        yield client


def test_the_tokenizer_knows_the_markers_of_a_turn() -> None:
    directory = prepare(DEFAULT_MODEL, Progress()).directory
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    ids = tokenizer.encode(PROMPTS[0], add_special_tokens=False).ids
    assert (ids.count(START), ids.count(END)) == (2, 1)
    assert tokenizer.decode(ids, skip_special_tokens=False) == PROMPTS[0]


def test_the_server_is_strict(client: Client) -> None:
    (model,) = client.models()
    assert (model.id, model.max_model_len, model.exactness) == (DEFAULT_MODEL, 8192, "strict")
    assert model.sources == ("recycle", "suffix", "retrieval", "ngram")


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_speculation_changes_no_token(client: Client, temperature: float) -> None:
    drafted = 0
    for seed, prompt in enumerate(PROMPTS):
        plain, fast = (
            client.generate(
                prompt, max_tokens=48, temperature=temperature, seed=seed, speculation=switch
            )
            for switch in (False, True)
        )
        assert fast.token_ids == plain.token_ids
        drafted += fast.speculation.drafted
    assert drafted > 0


def test_it_answers_a_question(client: Client) -> None:
    question = [{"role": "user", "content": "What is the capital of France?"}]
    completion = client.generate(question, max_tokens=32, temperature=0)
    assert "Paris" in completion.text
    assert completion.finish_reason.value == "stop"
