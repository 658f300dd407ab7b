"""The AVX-512 path, emulated where need be, gives the same bits as the path built here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from dspark.verifier.model.weight_format import weight_format
from dspark.verifier.native import build, library
from dspark.verifier.native.library import Team
from dspark.verifier.native.packing import linear

EMULATION = Path(__file__).parents[3] / "harness" / "emulated_avx512.h"
SOURCE = Path(build.__file__).parent / "kernels.cpp"
SHAPES = [(1, 1), (33, 31), (64, 129)]
ROWS = (1, 2, 7, 11, 12, 13, 25)


def compiled(folder: Path, *flags: str) -> Path:
    target = folder / "kernels.so"
    command = [
        "g++",
        "-O1",
        "-mavx2",
        "-mf16c",
        "-mfma",
        "-std=c++17",
        "-ffp-contract=off",
        "-fPIC",
    ]
    command += ["-shared", "-pthread", "-include", str(EMULATION), *flags, str(SOURCE)]
    subprocess.run([*command, "-o", str(target)], check=True, capture_output=True)
    return target


def results() -> list[torch.Tensor]:
    """Outputs of every format, shape and number of rows by the loaded kernels."""
    generator = torch.Generator().manual_seed(0)
    team, outputs = Team(2), []
    for name in ("fp32", "bf16", "int8", "int4"):
        form = weight_format(name, torch.float32)
        for n, k in SHAPES:
            weight = torch.randn(n, k, generator=generator).to(form.load_dtype or torch.float32)
            packed = form.pack(weight, torch.randn(n, generator=generator))
            rows = torch.randn(max(ROWS), k, generator=generator)
            outputs += [linear(team, packed, rows[:count]) for count in ROWS]
    return outputs


@pytest.mark.parametrize("flags", [(), ("-DEMULATE_VNNI",)], ids=["avx512bw", "vnni"])
def test_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    here = results()
    with monkeypatch.context() as patch:
        patch.setattr(library, "build_library", lambda: compiled(tmp_path, *flags))
        library.load_library.cache_clear()
        assert library.instruction_set() == "avx512"
        emulated = results()
    library.load_library.cache_clear()
    assert all(torch.equal(one, other) for one, other in zip(here, emulated, strict=True))
