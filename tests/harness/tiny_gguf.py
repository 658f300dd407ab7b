"""A tiny Llama as a GGUF file with a byte-level tokenizer, as llama.cpp's converter writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from harness.byte_tokenizer import CHAT_TEMPLATE, EOS, TURN, byte_alphabet

VOCAB_SIZE = 259
_BLOCK_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_tiny_gguf(path: Path, model: Any) -> None:
    """Write a ``LlamaForCausalLM`` of VOCAB_SIZE tokens with tied embeddings, in float32."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(VOCAB_SIZE)
    _add_tokenizer(writer)
    _add_weights(writer, model)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    control = [EOS, TURN]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*byte_alphabet(), *control, "hi"])
    normal, special = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_token_types([normal] * 256 + [special] * len(control) + [normal])
    writer.add_token_merges(["h i"])
    writer.add_eos_token_id(256)
    writer.add_bos_token_id(257)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_weights(writer: gguf.GGUFWriter, model: Any) -> None:
    config, weights = model.config, model.state_dict()
    writer.add_tensor("token_embd.weight", _array(weights["model.embed_tokens.weight"]))
    writer.add_tensor("output_norm.weight", _array(weights["model.norm.weight"]))
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for layer in range(config.num_hidden_layers):
        for name, ours in _BLOCK_TENSORS.items():
            weight = weights[f"model.layers.{layer}.{ours}.weight"]
            if name in heads:
                weight = _interleaved(weight, heads[name])
            writer.add_tensor(f"blk.{layer}.{name}.weight", _array(weight))


def _interleaved(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """[heads * dim, hidden] with the halves of each head interleaved, as llama.cpp rotates them."""
    halves = weight.view(num_heads, 2, weight.shape[0] // num_heads // 2, -1)
    return halves.transpose(1, 2).reshape(weight.shape)


def _array(weight: torch.Tensor) -> np.ndarray[Any, Any]:
    return weight.float().contiguous().numpy()
