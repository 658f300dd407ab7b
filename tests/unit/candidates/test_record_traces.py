from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bench.record_traces import TOP_K, record

PROMPT = [5, 9, 2, 7]


def likely(model: LlamaForCausalLM, token_ids: list[int]) -> list[int]:
    with torch.inference_mode():
        logits = model(torch.tensor([token_ids])).logits[0, -1]
    return [int(token_id) for token_id in logits.topk(TOP_K).indices]


def test_rows_are_what_a_pass_over_each_text_alone_gives() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = LlamaForCausalLM(config).eval()
    trace = record(model, PROMPT, max_tokens=5, eos=set())
    text = list(PROMPT)
    assert len(trace["token_ids"]) == len(trace["rows"]) == 5
    for token_id, row in zip(trace["token_ids"], trace["rows"], strict=True):
        assert row["tokens"] == likely(model, text)
        assert row["top"] == [likely(model, [*text, sibling]) for sibling in row["tokens"]]
        assert token_id == row["tokens"][0]
        text.append(token_id)
    stopped = record(model, PROMPT, max_tokens=5, eos={trace["token_ids"][2]})
    assert stopped["token_ids"] == trace["token_ids"][:2]
