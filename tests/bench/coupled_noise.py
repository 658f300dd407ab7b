"""How often a drafter guesses the next draw of a target, by the noise that it draws with.

    python tests/bench/coupled_noise.py --model DIR --texts DIR --medusa FILE
    python tests/bench/coupled_noise.py --model DIR --texts DIR --draft DIR [--temperature 1.0]

Target and drafter read the same texts, of which ``texts/`` of ``dspark train`` is a store. At each
place of an answer the target draws with keyed noise, and the drafter guesses one token: its
likeliest one, a draw with noise of its own, or the best with the target's noise. ``most`` is what
classic speculative sampling accepts, the overlap of the two distributions. ``score`` is what the
drafter says of its guess with the target's noise, with the error scale that fits best, which is
given too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.perturbed_top import DrawNoise, top_scores
from dspark.candidates.sources.medusa_file import read_heads
from dspark.candidates.target_digest import target_digest
from dspark.candidates.target_matrices import TargetMatrices
from dspark.training.text_store import StoredText, StoreMeta, TextStore

Floats = NDArray[np.float32]
SCALES = tuple(round(0.3 + 0.1 * step, 1) for step in range(25))
OTHER_SEED = 1 << 40
MAX_TOKENS = 512


def stored(folder: Path) -> list[StoredText]:
    """Every twentieth text, which the trainings hold out."""
    known = json.loads((folder / "meta.json").read_text())
    meta = StoreMeta(
        known["target_digest"], known["vocab_size"], known["hidden_size"], tuple(known["layers"])
    )
    return TextStore(folder, meta).texts()[::20]


def load(directory: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


class Drafter:
    """Logits after each token of a text but the first, over the whole vocabulary."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._model = load(arguments.draft) if arguments.draft else None
        if arguments.medusa:
            weights = LearnedWeights(arguments.medusa, target_digest(arguments.model))
            self._heads = read_heads(weights, arguments.model)

    def logits(self, token_ids: torch.Tensor, hidden: Floats, vocab_size: int) -> Floats:
        """``hidden`` [num_tokens, hidden_size] are the target's last states."""
        if self._model is not None:
            return self._model(token_ids[None]).logits[0, 1:].numpy()
        head = self._heads.logits(hidden[:-1], token_ids[1:].numpy())[:, 0]
        every = np.full((len(head), vocab_size), -1e9, dtype=np.float32)
        for row, anchor in enumerate(token_ids[1:].tolist()):
            bias = self._heads.bias(anchor, np.arange(len(self._heads.token_ids)))
            every[row, self._heads.token_ids] = head[row] if bias is None else head[row] + bias
        return every


def places(arguments: argparse.Namespace) -> Iterator[tuple[Floats, Floats, int, int]]:
    """The target's and the drafter's logits, the seed and the position of each draw."""
    target, drafter = load(arguments.model), Drafter(arguments)
    left = arguments.positions
    for seed, text in enumerate(stored(arguments.texts)):
        token_ids = torch.from_numpy(text.token_ids[:MAX_TOKENS].astype(np.int64))
        with torch.inference_mode():
            hidden = target.base_model(token_ids[None])[0][0]
            first = max(1, text.num_prompt_tokens)
            theirs = target.get_output_embeddings()(hidden[first - 1 : -1]).numpy()
            ours = drafter.logits(token_ids, hidden.numpy(), theirs.shape[1])
        for row in range(1, len(theirs)):
            if not left:
                return
            left -= 1
            yield theirs[row], ours[first - 2 + row], seed, first + row


def softmax(logits: Floats, temperature: float) -> NDArray[np.float64]:
    powers = np.exp((logits.astype(np.float64) - float(logits.max())) / temperature)
    return powers / powers.sum()


def overlap(theirs: Floats, ours: Floats, temperature: float) -> float:
    """What two distributions share; at temperature 0 whether both have one token in mind."""
    if temperature == 0:
        return float(theirs.argmax() == ours.argmax())
    p, q = softmax(theirs, temperature), softmax(ours, temperature)
    return float(np.minimum(p, q).sum())


def run(arguments: argparse.Namespace) -> dict[str, float]:
    temperature = arguments.temperature
    hits = dict.fromkeys(("greedy", "own noise", "target's noise", "in 4 greedy", "in 4 keyed"), 0)
    most, count, losses = 0.0, 0, np.zeros(len(SCALES))
    scores: list[Floats] = []
    noise = DrawNoise(np.arange(TargetMatrices(arguments.model).vocab_size))
    for theirs, ours, seed, position in places(arguments):
        drawn = int(noise.perturbed(theirs, temperature, seed, position).argmax())
        keyed = noise.perturbed(ours, temperature, seed, position)
        own = noise.perturbed(ours, temperature, seed + OTHER_SEED, position)
        greedy_four, keyed_four = top_scores(ours, 1.0, 4)[0], top_scores(keyed, 1.0, 4)[0]
        hits["greedy"] += int(greedy_four[0] == drawn)
        hits["own noise"] += int(own.argmax() == drawn)
        hits["target's noise"] += int(keyed_four[0] == drawn)
        hits["in 4 greedy"] += int(drawn in greedy_four)
        hits["in 4 keyed"] += int(drawn in keyed_four)
        most, count = most + overlap(theirs, ours, temperature), count + 1
        given = [top_scores(keyed, scale, 1)[1][0] for scale in SCALES]
        scores.append(np.array(given, dtype=np.float32))
        right = keyed_four[0] == drawn
        losses -= np.log(np.clip(scores[-1] if right else 1 - scores[-1], 1e-4, 1))
    best = int(losses.argmin())
    return {
        "positions": count,
        **{name: round(number / count, 4) for name, number in hits.items()},
        "most": round(most / count, 4),
        "error scale": SCALES[best],
        "score": round(float(np.mean([each[best] for each in scores])), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path, required=True, help="directory of the target")
    parser.add_argument("--texts", type=Path, required=True, help="store of the target's texts")
    drafter = parser.add_mutually_exclusive_group(required=True)
    drafter.add_argument("--draft", type=Path, help="directory of a draft model")
    drafter.add_argument("--medusa", type=Path, help="medusa.safetensors; its first head guesses")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--positions", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(json.dumps(run(arguments), indent=1))


if __name__ == "__main__":
    main()
