"""Records greedy texts of a model, with its most likely successors, for ``acceptance_replay``.

python tests/bench/record_traces.py MODEL_DIR --prompts PROMPTS.json --out TRACES.json

MODEL_DIR is anything ``transformers`` loads; a GGUF file in it is named with ``--gguf-file``. At
each position the rows of all ``TOP_K`` most likely tokens are computed, as if they were tree nodes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

TOP_K = 8


@torch.inference_mode()
def record(model: Any, prompt_ids: list[int], max_tokens: int, eos: set[int]) -> dict[str, Any]:
    """One trace: see ``acceptance_replay``."""
    cache = DynamicCache(config=model.config)
    # logits of the last prompt token: [1, 1, vocab]
    reply = model(torch.tensor([prompt_ids]), cache=cache, logits_to_keep=1)
    likely = reply.logits[0, -1].topk(TOP_K).indices.tolist()
    token_ids: list[int] = []
    rows: list[dict[str, Any]] = []
    while len(token_ids) < max_tokens and likely[0] not in eos:
        position = len(prompt_ids) + len(token_ids)
        reply = model(
            torch.tensor([likely]),
            cache=cache,
            attention_mask=_siblings_mask(position),
            position_ids=torch.full((1, TOP_K), position),
        )
        # the most likely token is the first of the rows: only its K/V stays
        cache.crop(1 - TOP_K)
        successors = reply.logits[0].topk(TOP_K).indices.tolist()
        token_ids.append(likely[0])
        rows.append({"tokens": likely, "top": successors})
        likely = successors[0]
    return {"prompt_ids": prompt_ids, "token_ids": token_ids, "rows": rows}


def _siblings_mask(position: int) -> torch.Tensor:
    """Additive mask [1, 1, TOP_K, position + TOP_K]: each row sees the text and itself."""
    mask = torch.full((TOP_K, position + TOP_K), float("-inf"))
    mask[:, :position] = 0.0
    mask[torch.arange(TOP_K), position + torch.arange(TOP_K)] = 0.0
    return mask[None, None]


def main() -> None:
    parser = argparse.ArgumentParser(description="Record greedy texts for acceptance_replay.")
    parser.add_argument("model")
    parser.add_argument("--gguf-file")
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--max-tokens", type=int, default=128)
    arguments = parser.parse_args()
    source = {"gguf_file": arguments.gguf_file} if arguments.gguf_file else {}
    tokenizer = AutoTokenizer.from_pretrained(arguments.model, **source)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32, **source)
    eos = {tokenizer.eos_token_id}
    traces = []
    for entry in json.loads(arguments.prompts.read_text()):
        prompt_ids = tokenizer(entry["prompt"], add_special_tokens=False).input_ids
        trace = record(model.eval(), prompt_ids, arguments.max_tokens, eos)
        traces.append({"set": arguments.prompts.stem, "kind": entry["kind"], **trace})
        print(f"{entry['kind']}: {len(trace['token_ids'])} tokens", flush=True)
    arguments.out.write_text(json.dumps(traces))


if __name__ == "__main__":
    main()
