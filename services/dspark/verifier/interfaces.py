"""The seams inside the verifier: who runs the model, where K/V lives, and what loading yields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dspark.kv_blocks import KvLayout
from dspark.step import VerifyCost
from dspark.verifier.forward_batch import ForwardBatch, IntArray
from dspark.verifier.pruning.pruner import NoPruning, Pruner
from dspark.verifier.structure.compiler import NoStructures, Structures

# Says one line about the long part that runs now, such as "loading weights".
# dspark.verifier.model.loader.load_model(config: VerifierConfig, progress: Progress) -> LoadedModel
# is the entry point that ``python -m dspark.verifier`` calls; it raises ModelRefused.
Progress = Callable[[str], None]


class ModelRefused(Exception):
    """The model cannot be served; the message is one line that says why."""


class ModelRunner(Protocol):
    """Runs the target model over rows. Not thread-safe: the engine's one thread calls it."""

    vocab_size: int
    max_model_len: int
    eos_token_ids: frozenset[int]

    @property
    def hidden_size(self) -> int: ...

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Layers whose hidden states ``forward`` can write to ``batch.features``."""
        ...

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        """Write each row's K/V to its slot and return logits, float32 [num_logits, vocab_size].

        The engine has done with the returned array before it calls again, so it may be reused.
        """
        ...


class KvStore(Protocol):
    """The KV pool's memory, addressed by slot."""

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy all layers' K/V from source to destination slots; reads happen before writes."""
        ...

    @property
    def layout(self) -> KvLayout:
        """The form of a block's bytes."""
        ...

    def read_blocks(self, blocks: Sequence[int]) -> bytes:
        """The bytes of the blocks, one after the other."""
        ...

    def write_blocks(self, blocks: Sequence[int], data: bytes) -> None:
        """Store what ``read_blocks`` gave for as many blocks."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is loaded, self-tested and warmed up, with its KV pool.

    ``model_digest`` identifies weights and dtype, ``kernel_class`` the arithmetic. ``exactness``
    is "strict" only where the row-invariance self-test passed. ``verify_costs`` goes
    by context, then rows; it is monotone in both. ``pruner`` decides which rows of a pass leave it
    early, ``structures`` has the matchers of structured outputs.
    """

    runner: ModelRunner
    kv: KvStore
    model_digest: str
    kernel_class: str
    exactness: str
    dtype: str
    device: str
    max_step_rows: int
    verify_costs: tuple[VerifyCost, ...]
    pruner: Pruner = field(default_factory=NoPruning)
    structures: Structures = field(default_factory=NoStructures)
