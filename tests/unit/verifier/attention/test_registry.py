"""Choosing an attention backend."""

from __future__ import annotations

import pytest
import torch

from dspark.verifier.attention import registry

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def flash_attn_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: object())


def test_auto_on_the_cpu() -> None:
    assert registry.choose_backend("auto", CPU, native=True, block_size=16) == "native"
    assert registry.choose_backend("auto", CPU, native=False, block_size=16) == "torch"


@pytest.mark.usefixtures("flash_attn_installed")
def test_auto_on_cuda_takes_flash_attn_where_its_blocks_fit() -> None:
    assert registry.choose_backend("auto", CUDA, native=False, block_size=512) == "flash_attn"
    assert registry.choose_backend("auto", CUDA, native=False, block_size=16) == "torch"


@pytest.mark.usefixtures("flash_attn_installed")
@pytest.mark.parametrize(
    ("wanted", "device", "block_size", "problem"),
    [
        ("magic", CPU, 16, "auto or one of flash_attn, native, torch"),
        ("native", CPU, 16, "needs the native kernels"),
        ("flash_attn", CPU, 256, "a CUDA device"),
        ("flash_attn", CUDA, 16, "multiples of 256"),
    ],
)
def test_what_does_not_work_is_refused_with_the_reason(
    wanted: str, device: torch.device, block_size: int, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        registry.choose_backend(wanted, device, native=False, block_size=block_size)


def test_flash_attn_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="the flash-attn package"):
        registry.choose_backend("flash_attn", CUDA, native=False, block_size=256)
