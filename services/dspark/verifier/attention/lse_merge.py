"""Joins attention over disjoint sets of positions by their log-sum-exps."""

from __future__ import annotations

import torch


def merge_by_lse(
    first: torch.Tensor, first_lse: torch.Tensor, second: torch.Tensor, second_lse: torch.Tensor
) -> torch.Tensor:
    """Attention over both sets: outputs [rows, heads, dim], LSEs [rows, heads], float32.

    An LSE of -inf marks an empty set, whose output is ignored; at most one may be empty.
    """
    top = torch.maximum(first_lse, second_lse)
    first_weight = torch.exp(first_lse - top)[..., None]
    second_weight = torch.exp(second_lse - top)[..., None]
    first = first.float().masked_fill(first_weight == 0, 0.0)
    second = second.float().masked_fill(second_weight == 0, 0.0)
    return (first * first_weight + second * second_weight) / (first_weight + second_weight)
