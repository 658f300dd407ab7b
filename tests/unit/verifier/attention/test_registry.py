"""Choosing an attention backend."""

from __future__ import annotations

import pytest
import torch

from dspark.verifier.attention import registry
from dspark.verifier.attention.registry import backend_choices, num_scratch_blocks

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: object())


@pytest.fixture
def none_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)


def test_auto_on_the_cpu() -> None:
    assert backend_choices("auto", CPU, native=True, block_size=16) == ("native", "torch")
    assert backend_choices("auto", CPU, native=False, block_size=16) == ("torch",)


@pytest.mark.usefixtures("all_installed")
@pytest.mark.parametrize(
    ("block_size", "names"),
    [
        (512, ("flash_attn", "flex", "torch")),
        (16, ("flex", "torch")),
        (8, ("torch",)),
    ],
)
def test_auto_on_cuda_takes_what_fits_the_blocks(block_size: int, names: tuple[str, ...]) -> None:
    assert backend_choices("auto", CUDA, native=False, block_size=block_size) == names


@pytest.mark.usefixtures("none_installed")
def test_auto_on_cuda_without_packages() -> None:
    assert backend_choices("auto", CUDA, native=False, block_size=256) == ("torch",)


@pytest.mark.usefixtures("all_installed")
def test_a_name_means_itself_alone() -> None:
    assert backend_choices("flex", CUDA, native=False, block_size=32) == ("flex",)
    assert backend_choices("flex", CPU, native=True, block_size=16) == ("flex",)
    assert backend_choices("torch", CUDA, native=False, block_size=3) == ("torch",)


@pytest.mark.usefixtures("all_installed")
@pytest.mark.parametrize(
    ("wanted", "device", "block_size", "problem"),
    [
        ("magic", CPU, 16, "auto or one of flash_attn, flex, native, torch"),
        ("native", CPU, 16, "needs the native kernels"),
        ("flash_attn", CPU, 256, "a CUDA device"),
        ("flash_attn", CUDA, 16, "multiples of 256"),
        ("flex", CUDA, 24, "multiples of 16"),
    ],
)
def test_what_does_not_work_is_refused_with_the_reason(
    wanted: str, device: torch.device, block_size: int, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        backend_choices(wanted, device, native=False, block_size=block_size)


@pytest.mark.usefixtures("none_installed")
@pytest.mark.parametrize(("wanted", "package"), [("flash_attn", "flash-attn"), ("flex", "triton")])
def test_without_its_package(wanted: str, package: str) -> None:
    with pytest.raises(ValueError, match=f"the {package} package"):
        backend_choices(wanted, CUDA, native=False, block_size=256)


def test_scratch_blocks_are_a_small_part_of_a_large_pool() -> None:
    assert num_scratch_blocks(("native", "torch"), 4096) == 0
    assert num_scratch_blocks(("flex", "torch"), 4096) == 256
    assert num_scratch_blocks(("flash_attn", "flex", "torch"), 512) == 64
    assert num_scratch_blocks(("flash_attn",), 512) == 1
