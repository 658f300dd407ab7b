"""How well weights of learned sources guess on texts of the target that they were not made of.

    dspark train medusa --data HELD_OUT --steps 1 --out TEXTS
    python tests/bench/weights_on_texts.py TEXTS/texts --ngram-table A/ngram.bin B/ngram.bin

The texts are replayed, nothing is computed but guesses: trees of 15 nodes for up to 60 texts.
Prints tokens a pass for each of the weights alone and together with ``suffix``. With weights from
before and after a training on a domain, that is what adapting to it brings.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.models.prepare import prepare
from dspark.cli.progress import Progress
from dspark.training.held_out import acceptance_of
from dspark.training.text_store import StoreMeta, TextStore
from dspark.training.trainer import sentence

WEIGHTS = {
    "ngram": "ngram_table",
    "medusa": "medusa_weights",
    "block": "block_weights",
    "draft": "draft_model",
}


def opened(folder: Path) -> TextStore:
    meta = json.loads((folder / "meta.json").read_text())
    del meta["version"]
    return TextStore(folder, StoreMeta(**meta | {"layers": tuple(meta["layers"])}))


def configs(options: argparse.Namespace, model_dir: str) -> Iterator[tuple[str, CandidatesConfig]]:
    for source, setting in WEIGHTS.items():
        for path in getattr(options, setting) or ():
            for more in ((), ("suffix",)):
                yield (
                    f"{source} of {path}{' with suffix' if more else ''}",
                    CandidatesConfig(
                        sources=(source, *more), model=model_dir, **{setting: str(path)}
                    ),
                )


def main() -> None:
    parser = argparse.ArgumentParser(description="Acceptance of weights on texts.")
    parser.add_argument("texts", type=Path, help="folder that 'dspark train' wrote")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    for setting in WEIGHTS.values():
        parser.add_argument(f"--{setting.replace('_', '-')}", type=Path, nargs="+")
    options = parser.parse_args()
    store = opened(options.texts)
    model_dir = str(prepare(options.model, Progress()).directory)
    for name, config in configs(options, model_dir):
        sources = build_sources(config)
        acceptance = acceptance_of(sources, store.texts(), store.meta.vocab_size, store.meta.layers)
        print(f"{name}: {sentence(acceptance)}", flush=True)


if __name__ == "__main__":
    main()
