"""Attention backends by name; a backend's imports happen when it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch

from dspark.verifier.attention.backend import AttentionBackend


def _torch(num_threads: int) -> AttentionBackend:
    from dspark.verifier.attention.torch_backend import TorchAttention

    return TorchAttention()


def _native(num_threads: int) -> AttentionBackend:
    from dspark.verifier.attention.native_backend import NativeAttention
    from dspark.verifier.native.library import Team

    return NativeAttention(Team(num_threads))


def _flash_attn(num_threads: int) -> AttentionBackend:
    from dspark.verifier.attention.flash_backend import FlashAttention

    return FlashAttention()


BACKENDS: dict[str, Callable[[int], AttentionBackend]] = {
    "torch": _torch,
    "native": _native,
    "flash_attn": _flash_attn,
}


def choose_backend(wanted: str, device: torch.device, *, native: bool) -> str:
    """The backend that ``wanted`` (a name or "auto") means; ``native``: the CPU kernels are used.

    Raises ValueError for an unknown name.
    """
    if wanted != "auto":
        if wanted not in BACKENDS:
            raise ValueError(f"--attention must be auto or one of {', '.join(sorted(BACKENDS))}")
        return wanted
    if native:
        return "native"
    # The paged kernels come with flash-attn alone.
    return "flash_attn" if device.type == "cuda" and find_spec("flash_attn") else "torch"
