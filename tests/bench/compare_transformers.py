"""Compares ``dspark bench`` with ``transformers.generate`` on one machine, one after the other.

    python tests/bench/compare_transformers.py --prompts FILE.json --max-tokens 128

Both get the same prompts as text (special tokens parsed, nothing added), decode greedily with bf16
weights, one request at a time, and run in processes of their own. The ratio is that of tokens a
second, prefill included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def generate_with_transformers(model_dir: str, prompts: list[str], max_tokens: int) -> None:
    """Print one JSON object: the tokens and the seconds of generating for all prompts."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16)
    model.train(False)
    batches = [
        tokenizer(prompt, return_tensors="pt", add_special_tokens=False) for prompt in prompts
    ]

    def generate(batch: Any, limit: int) -> int:
        output = model.generate(**batch, max_new_tokens=limit, do_sample=False)
        return int(output.shape[1] - batch["input_ids"].shape[1])

    with torch.inference_mode():
        generate(batches[0], 8)
        started = time.perf_counter()
        tokens = sum(generate(batch, max_tokens) for batch in batches)
        seconds = time.perf_counter() - started
    print(json.dumps({"tokens": tokens, "seconds": seconds, "threads": torch.get_num_threads()}))


def prepared(model: str) -> Path:
    """The directory that both are given; imported late, since the baseline must not load DSpark."""
    from dspark.cli.models.prepare import prepare
    from dspark.cli.progress import Progress

    return prepare(model, Progress()).directory


def run_transformers(model_dir: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The baseline in a fresh process."""
    command = [sys.executable, __file__, "--only-transformers", str(model_dir)]
    command += ["--prompts", str(options.prompts), "--max-tokens", str(options.max_tokens)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_dspark(model_dir: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The runs of ``dspark bench`` over the same prompts, speculation off and on."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "bench.json"
        command = [str(Path(sys.executable).with_name("dspark")), "bench", "--embedded"]
        command += ["--model", str(model_dir), "--prompts", str(options.prompts)]
        command += ["--max-tokens", str(options.max_tokens), "--temperature", "0"]
        command += ["--concurrency", "1", "--speculation", "off,on", "--json", str(output)]
        # It exits with 1 when on and off differ, which is for its own output to say.
        if subprocess.run(command).returncode not in (0, 1):
            raise SystemExit("dspark bench failed")
        return list(json.loads(output.read_text())["runs"])


def report(baseline: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    base = baseline["tokens"] / baseline["seconds"]
    print(f"\n{'system':28}{'tokens/s':>10}{'ratio':>8}")
    print(f"{'transformers.generate':28}{base:10.1f}{1:8.2f}")
    for run in runs:
        name = f"DSpark, speculation {_on_off(run['speculation'])}"
        print(f"{name:28}{run['tokens_per_s']:10.1f}{run['tokens_per_s'] / base:8.2f}")


def _on_off(value: object) -> str:
    return value if isinstance(value, str) else ("on" if value else "off")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="compare DSpark with transformers.generate")
    parser.add_argument("--prompts", type=Path, required=True, help='list of {"prompt": text}')
    parser.add_argument("--num-prompts", type=int, help="only the first ones; default all")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--only-transformers", metavar="DIR", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.only_transformers:
        prompts = [entry["prompt"] for entry in json.loads(options.prompts.read_text())]
        generate_with_transformers(options.only_transformers, prompts, options.max_tokens)
        return
    model_dir = prepared(options.model)
    with tempfile.TemporaryDirectory() as directory:
        prompts_file = Path(directory) / "prompts.json"
        entries = json.loads(options.prompts.read_text())[: options.num_prompts]
        prompts_file.write_text(json.dumps(entries))
        options.prompts = prompts_file
        report(run_transformers(model_dir, options), run_dspark(model_dir, options))


if __name__ == "__main__":
    main()
