"""A Llama of SmolLM2-135M's shape with random weights: ``python -m harness.random_llama DIR``."""

from __future__ import annotations

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def save(directory: str) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).bfloat16().save_pretrained(directory)


if __name__ == "__main__":
    save(sys.argv[1])
