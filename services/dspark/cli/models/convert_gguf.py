"""A GGUF file becomes a Hugging Face directory with bf16 weights. Run as a process of its own:
``python -m dspark.cli.models.convert_gguf FILE.gguf DIRECTORY``; progress goes to stderr.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any


def convert(gguf: Path, directory: Path) -> None:
    """Write config, generation config, weights, tokenizer and chat template into ``directory``."""
    _say("loading the converter")
    _parse_once()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    _say("reading the tokenizer")
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    _check_special_tokens(tokenizer)
    tokenizer.save_pretrained(directory, save_jinja_files=False)
    _say("reading the weights")
    model = AutoModelForCausalLM.from_pretrained(
        **source, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    _drop_foreign_tokens(directory, model.config.vocab_size)
    model.generation_config.eos_token_id = sorted(_end_tokens(tokenizer, model.config))
    _say("writing bf16 weights")
    model.save_pretrained(directory)
    _drop_quantization(directory / "config.json")


def _parse_once() -> None:
    """transformers parses the file anew for each part, which would triple the time needed."""
    import gguf

    for name in ("GGUFReader", "get_tensor_name_map"):
        setattr(gguf, name, cache(getattr(gguf, name)))


def _say(text: str) -> None:
    print(f"progress: {text}", file=sys.stderr, flush=True)


def _check_special_tokens(tokenizer: Any) -> None:
    """Each special token must parse to its one id, or chat prompts would be spelled out."""
    for token, token_id in tokenizer.get_added_vocab().items():
        found = tokenizer.encode(token, add_special_tokens=False)
        if found != [token_id]:
            raise SystemExit(f"the tokenizer splits the special token {token!r} into {found}")


def _drop_foreign_tokens(directory: Path, vocab_size: int) -> None:
    """transformers adds special tokens of its own that a file lacks, with ids the model has not."""
    path, config_path = directory / "tokenizer.json", directory / "tokenizer_config.json"
    tokenizer, config = json.loads(path.read_text()), json.loads(config_path.read_text())
    added = tokenizer["added_tokens"]
    foreign = {token["content"] for token in added if token["id"] >= vocab_size}
    if not foreign:
        return
    tokenizer["added_tokens"] = [token for token in added if token["content"] not in foreign]
    path.write_text(json.dumps(tokenizer, ensure_ascii=False))
    kept = {key: value for key, value in config.items() if value not in foreign}
    config_path.write_text(json.dumps(kept, indent=2, ensure_ascii=False))


def _end_tokens(tokenizer: Any, config: Any) -> set[int]:
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    return {token for token in (*ends, tokenizer.eos_token_id) if token is not None}


def _drop_quantization(path: Path) -> None:
    config = json.loads(path.read_text())
    config.pop("quantization_config", None)
    config.pop("_name_or_path", None)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
