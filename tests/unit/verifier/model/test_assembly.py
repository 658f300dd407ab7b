"""Models of other shapes run through their own forward pass, or are refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel, ModelRefused
from dspark.verifier.model.loader import load_model
from dspark.verifier.model.probe_rows import plain_rows, probe_batch

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
TOKENS = [(7 * i + 2) % 60 for i in range(20)]


def saved(config: Any, directory: Path) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(directory)
    return model


def load(directory: Path) -> LoadedModel:
    config = VerifierConfig(model=str(directory), kv_tokens=256, max_step_rows=1)
    return load_model(config, lambda line: None)


def check_logits(model: Any, loaded: LoadedModel) -> None:
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = model(torch.tensor([TOKENS])).logits[0].numpy()
    rows = plain_rows(TOKENS, range(len(TOKENS)))
    logits = np.concatenate(
        [loaded.runner.forward(probe_batch([row], [0], block_size=16)).copy() for row in rows]
    )
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_a_scale_that_no_structure_shows_is_noticed(tmp_path: Path) -> None:
    """Granite has Llama's parts, and multipliers between them."""
    from transformers import GraniteConfig

    config = GraniteConfig(
        **SIZES, residual_multiplier=0.5, logits_scaling=3.0, embedding_multiplier=2.0
    )
    model = saved(config, tmp_path)
    loaded = load(tmp_path)
    assert "-stock-native" in loaded.kernel_class
    assert loaded.exactness == "strict"
    check_logits(model, loaded)


def test_another_layer_structure(tmp_path: Path) -> None:
    """OLMo 2 normalises after each branch and over all heads at once."""
    from transformers import Olmo2Config

    model = saved(Olmo2Config(**SIZES), tmp_path)
    loaded = load(tmp_path)
    assert "-stock-native" in loaded.kernel_class
    check_logits(model, loaded)


def test_layers_without_rotary_embeddings_are_noticed(tmp_path: Path) -> None:
    """SmolLM 3 is Llama but for every fourth layer."""
    from transformers import SmolLM3Config

    config = SmolLM3Config(**SIZES | {"num_hidden_layers": 4}, bos_token_id=0)
    model = saved(config, tmp_path)
    loaded = load(tmp_path)
    assert "-stock-native" in loaded.kernel_class
    check_logits(model, loaded)


def test_a_window_that_only_the_call_names(tmp_path: Path) -> None:
    """Mistral's modules hold no window, and this one is longer than the start-up check."""
    from transformers import MistralConfig

    model = saved(MistralConfig(**SIZES, head_dim=8, sliding_window=15), tmp_path)
    loaded = load(tmp_path)
    assert "-stock" not in loaded.kernel_class
    check_logits(model, loaded)


def test_a_config_that_misstates_the_heads(tmp_path: Path) -> None:
    """GPT-NeoX has as many K/V heads as heads, whatever its config carries."""
    from transformers import GPTNeoXConfig

    model = saved(GPTNeoXConfig(**SIZES), tmp_path)
    loaded = load(tmp_path)
    check_logits(model, loaded)


def test_strict_is_not_claimed_for_experts_in_groups(tmp_path: Path) -> None:
    from transformers import Qwen3MoeConfig

    config = Qwen3MoeConfig(
        **SIZES, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8
    )
    model = saved(config, tmp_path)
    loaded = load(tmp_path)
    assert loaded.exactness == "fast"
    check_logits(model, loaded)


def test_attention_sinks_are_refused(tmp_path: Path) -> None:
    from transformers import GptOssConfig

    config = GptOssConfig(
        **SIZES | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
    )
    saved(config, tmp_path)
    with pytest.raises(ModelRefused, match="passes s_aux to attention"):
        load(tmp_path)
