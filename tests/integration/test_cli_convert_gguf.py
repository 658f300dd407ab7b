"""A GGUF file becomes a directory with the same model and a tokenizer that knows its tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from dspark.cli.models.directory import missing_parts
from dspark.cli.models.prepare import PreparedModel, prepare
from dspark.cli.progress import Progress
from harness.byte_tokenizer import EOS, TURN
from harness.tiny_gguf import VOCAB_SIZE, write_tiny_gguf
from harness.tiny_models import tiny_model

pytestmark = pytest.mark.slow
TEXT = f"{TURN}user:Größe 🙂{EOS}"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PreparedModel]:
    folder = tmp_path_factory.mktemp("gguf")
    write_tiny_gguf(folder / "tiny.gguf", tiny_model("llama", VOCAB_SIZE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSPARK_CACHE_DIR", str(folder / "cache"))
        yield prepare(str(folder / "tiny.gguf"), Progress())


def test_the_directory_is_complete_and_in_bf16(prepared: PreparedModel) -> None:
    assert prepared.name == "tiny"
    assert missing_parts(prepared.directory) == []
    config = json.loads((prepared.directory / "config.json").read_text())
    assert (config["architectures"], config["dtype"]) == (["LlamaForCausalLM"], "bfloat16")
    assert "quantization_config" not in config
    generation = json.loads((prepared.directory / "generation_config.json").read_text())
    assert generation["eos_token_id"] == [256]


def test_the_weights_are_those_of_the_file(prepared: PreparedModel) -> None:
    loaded = AutoModelForCausalLM.from_pretrained(prepared.directory, dtype=torch.float32)
    original = tiny_model("llama", VOCAB_SIZE)
    expected = {name: weight.bfloat16().float() for name, weight in original.state_dict().items()}
    found = loaded.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
    original.load_state_dict(expected)
    ids = torch.arange(40)[None] * 5 % VOCAB_SIZE
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, original(ids).logits, atol=1e-4, rtol=1e-4)


def test_special_tokens_are_one_id_and_text_comes_back(prepared: PreparedModel) -> None:
    tokenizer = Tokenizer.from_file(str(prepared.directory / "tokenizer.json"))
    ids = tokenizer.encode(TEXT, add_special_tokens=False).ids
    assert (ids[0], ids[-1]) == (257, 256)
    assert tokenizer.decode(ids, skip_special_tokens=False) == TEXT


def test_no_token_is_outside_the_model(prepared: PreparedModel) -> None:
    fast = Tokenizer.from_file(str(prepared.directory / "tokenizer.json"))
    assert max(fast.get_vocab(with_added_tokens=True).values()) < VOCAB_SIZE
    assert len(AutoTokenizer.from_pretrained(prepared.directory)) == VOCAB_SIZE


def test_the_chat_template_came_along(prepared: PreparedModel) -> None:
    tokenizer = AutoTokenizer.from_pretrained(prepared.directory)
    messages = [{"role": "user", "content": "hi"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == f"{TURN}user:hi{EOS}{TURN}assistant:"
