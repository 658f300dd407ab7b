"""Finds the weights of learned sources: those that a setting names, else those that ship.

What ships lies in ``pretrained/``, a folder for each target, with a ``card.json`` that says by its
``target_digest`` which target it fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dspark.candidates.target_digest import target_digest

PRETRAINED = Path(__file__).parent / "pretrained"


class NoWeights(Exception):
    """A learned source has nothing to run with; the message says why."""


@dataclass(frozen=True, slots=True)
class LearnedWeights:
    """A file with weights, and the digest of the target that they must fit."""

    path: Path
    target_digest: str

    def check(self, fits: str) -> None:
        """Raises ValueError if the file was made for another target."""
        if fits != self.target_digest:
            raise ValueError(
                f"{self.path} was trained for another model: for {fits[:12]}..., and the target is "
                f"{self.target_digest[:12]}...; train it anew with 'dspark train'"
            )


def find_weights(file_name: str, given: str | None, model_dir: str | None) -> LearnedWeights:
    """The file that is ``given``, else the one called ``file_name`` that ships for the target.

    Raises NoWeights if there is none, or if the target has no weights to fit.
    """
    if model_dir is None:
        raise NoWeights("--model does not say which target to fit")
    try:
        digest = _digest_of(model_dir)
    except ValueError as error:
        raise NoWeights(str(error)) from error
    if given is not None:
        return LearnedWeights(Path(given), digest)
    for folder in _shipped(digest):
        if (folder / file_name).exists():
            return LearnedWeights(folder / file_name, digest)
    raise NoWeights(f"no {file_name} ships for this target")


@cache
def _digest_of(model_dir: str) -> str:
    return target_digest(Path(model_dir))


def _shipped(digest: str) -> Iterator[Path]:
    for card in sorted(PRETRAINED.glob("*/card.json")):
        if json.loads(card.read_text()).get("target_digest") == digest:
            yield card.parent
