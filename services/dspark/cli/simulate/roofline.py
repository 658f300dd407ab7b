"""What a pass of a dense transformer takes on an accelerator, from both their data sheets.

The roofline model (Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785): a pass
takes as long as it reads its bytes or computes its operations, whichever is longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspark.cli.simulate.checks import at_least
from dspark.step import VerifyCost

_MEASURED_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_MEASURED_CONTEXTS = (64, 512, 2048)


@dataclass(frozen=True, slots=True)
class Roofline:
    """Shares are those of the peak that kernels reach; ``launch_ms`` is a pass's fixed time."""

    bandwidth_bytes_per_s: float
    peak_flops: float
    num_parameters: float
    # of one layer's projections and the output; embeddings are looked up, not multiplied
    num_multiplied_parameters: float
    kv_bytes_per_token: float
    # operations of attention for each row and each token that it attends to
    attention_flops: float
    bytes_per_parameter: float = 2.0
    bandwidth_share: float = 0.75
    compute_share: float = 0.6
    launch_ms: float = 0.5

    def __post_init__(self) -> None:
        at_least(1, self, "bandwidth_bytes_per_s", "peak_flops", "num_parameters")
        at_least(0, self, "kv_bytes_per_token", "attention_flops", "launch_ms")
        for name in ("bandwidth_share", "compute_share"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be above 0 and at most 1")

    def ms(self, parts: Sequence[tuple[int, int]]) -> float:
        """A pass over sequences with (rows, context) each; a sequence's K/V is read once."""
        rows = sum(count for count, _ in parts)
        read = self.num_multiplied_parameters * self.bytes_per_parameter
        read += self.kv_bytes_per_token * sum(context for _, context in parts)
        operations = 2.0 * self.num_multiplied_parameters * rows
        operations += self.attention_flops * sum(count * context for count, context in parts)
        reading_s = read / (self.bandwidth_bytes_per_s * self.bandwidth_share)
        computing_s = operations / (self.peak_flops * self.compute_share)
        return max(reading_s, computing_s) * 1e3 + self.launch_ms

    def measured(self) -> tuple[VerifyCost, ...]:
        """What a verifier would measure at its start: rows of one sequence."""
        return tuple(
            VerifyCost(rows, self.ms([(rows, context)]), context)
            for context in _MEASURED_CONTEXTS
            for rows in _MEASURED_ROWS
        )


def dense_transformer(
    *,
    bandwidth_bytes_per_s: float,
    peak_flops: float,
    num_layers: int,
    hidden_size: int,
    intermediate_size: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    vocab_size: int,
) -> Roofline:
    """Of a decoder with gated feed-forward layers, grouped queries and an output of its own."""
    attention = 2 * hidden_size * head_dim * (num_heads + num_kv_heads)
    layers = num_layers * (attention + 3 * hidden_size * intermediate_size)
    embedding = vocab_size * hidden_size
    return Roofline(
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        peak_flops=peak_flops,
        num_parameters=layers + 2 * embedding,
        num_multiplied_parameters=layers + embedding,
        kv_bytes_per_token=2 * num_layers * num_kv_heads * head_dim * 2,
        # scores and weighted sum: two operations an element each
        attention_flops=4 * num_layers * num_heads * head_dim,
    )
