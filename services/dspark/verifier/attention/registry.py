"""Attention backends by name; a backend's imports happen when it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch

from dspark.verifier.attention.backend import AttentionBackend
from dspark.verifier.device.transfer import transfer_for

# Makes a backend for a device; the number of threads is for those that compute on the CPU.
BackendFactory = Callable[[torch.device, int], AttentionBackend]


def _torch(device: torch.device, num_threads: int) -> AttentionBackend:
    from dspark.verifier.attention.torch_backend import TorchAttention

    return TorchAttention(transfer_for(device))


def _native(device: torch.device, num_threads: int) -> AttentionBackend:
    from dspark.verifier.attention.native_backend import NativeAttention
    from dspark.verifier.native.library import Team

    return NativeAttention(Team(num_threads))


def _flash_attn(device: torch.device, num_threads: int) -> AttentionBackend:
    from dspark.verifier.attention.flash_backend import FlashAttention

    return FlashAttention(transfer_for(device))


def _flex(device: torch.device, num_threads: int) -> AttentionBackend:
    from dspark.verifier.attention.flex_backend import FlexAttention
    from dspark.verifier.attention.flex_kernel import compiled_kernel, unfused_kernel

    kernel = compiled_kernel() if device.type == "cuda" else unfused_kernel()
    return FlexAttention(kernel, transfer_for(device))


BACKENDS: dict[str, BackendFactory] = {
    "torch": _torch,
    "native": _native,
    "flash_attn": _flash_attn,
    "flex": _flex,
}
# Blocks beside the pool that a backend would like, for copies and for rows that fill a pass up.
_SCRATCH_BLOCKS = {"flash_attn": 1, "flex": 256}
_FLASH_BLOCK = 256
_FLEX_BLOCK = 16


def backend_choices(
    wanted: str, device: torch.device, *, native: bool, block_size: int
) -> tuple[str, ...]:
    """The backends that ``wanted`` (a name or "auto") means, best first.

    ``native`` says that the CPU kernels are used. Raises ValueError for an unknown name, and for
    one that does not work here.
    """
    if wanted not in ("auto", *BACKENDS):
        raise ValueError(f"--attention must be auto or one of {', '.join(sorted(BACKENDS))}")
    problems = {
        "native": "" if native else "the native kernels",
        "flash_attn": _flash_attn_problem(device, block_size),
        "flex": _flex_problem(device, block_size),
        "torch": "",
    }
    if wanted == "auto":
        best = ("native", "torch") if device.type == "cpu" else ("flash_attn", "flex", "torch")
        return tuple(name for name in best if not problems[name])
    if problems[wanted]:
        raise ValueError(f"--attention {wanted} needs {problems[wanted]}")
    return (wanted,)


def num_scratch_blocks(names: tuple[str, ...], num_blocks: int) -> int:
    """Scratch blocks for a pool of ``num_blocks`` that any of the backends may use."""
    most = max(_SCRATCH_BLOCKS.get(name, 0) for name in names)
    return min(most, max(32, num_blocks // 8))


def _flash_attn_problem(device: torch.device, block_size: int) -> str:
    """What flash-attn's paged kernels lack here; empty if nothing."""
    if device.type != "cuda":
        return "a CUDA device"
    if not find_spec("flash_attn"):
        return "the flash-attn package"
    return f"--block-size in multiples of {_FLASH_BLOCK}" if block_size % _FLASH_BLOCK else ""


def _flex_problem(device: torch.device, block_size: int) -> str:
    """What FlexAttention's fused kernel lacks here; elsewhere than on CUDA it runs unfused."""
    if device.type == "cuda" and not find_spec("triton"):
        return "the triton package"
    return f"--block-size in multiples of {_FLEX_BLOCK}" if block_size % _FLEX_BLOCK else ""
