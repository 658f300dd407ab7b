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


_FLASH_BLOCK = 256

BACKENDS: dict[str, Callable[[int], AttentionBackend]] = {
    "torch": _torch,
    "native": _native,
    "flash_attn": _flash_attn,
}


def choose_backend(wanted: str, device: torch.device, *, native: bool, block_size: int) -> str:
    """The backend that ``wanted`` (a name or "auto") means; ``native``: the CPU kernels are used.

    Raises ValueError for an unknown name, and for one that does not work here.
    """
    if wanted not in ("auto", *BACKENDS):
        raise ValueError(f"--attention must be auto or one of {', '.join(sorted(BACKENDS))}")
    problem = _flash_attn_problem(device, block_size)
    if wanted == "auto":
        return "native" if native else "torch" if problem else "flash_attn"
    if wanted == "native" and not native:
        raise ValueError("--attention native needs the native kernels")
    if wanted == "flash_attn" and problem:
        raise ValueError(f"--attention flash_attn needs {problem}")
    return wanted


def _flash_attn_problem(device: torch.device, block_size: int) -> str:
    """What flash-attn's paged kernels lack here; empty if nothing."""
    if device.type != "cuda":
        return "a CUDA device"
    if not find_spec("flash_attn"):
        return "the flash-attn package"
    return f"--block-size in multiples of {_FLASH_BLOCK}" if block_size % _FLASH_BLOCK else ""
