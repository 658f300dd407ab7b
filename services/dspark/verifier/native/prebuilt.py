"""Kernels compiled ahead, one library for each class of processors: for hosts without a compiler.

As a program: ``python -m dspark.verifier.native.prebuilt DIRECTORY`` compiles them all.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dspark.verifier.native.compiler import compile_library, find_compiler, source_digest

_V3 = frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@dataclass(frozen=True, slots=True)
class Variant:
    """One library: the compiler's flags for it, and what /proc/cpuinfo must list to run it."""

    name: str
    compiler_flags: tuple[str, ...]
    cpu_flags: frozenset[str]


# The one that a processor runs is the first whose flags it has.
VARIANTS = (
    Variant("avx512-vnni", ("-march=x86-64-v4", "-mavx512vnni"), _V4 | {"avx512_vnni"}),
    Variant("avx512", ("-march=x86-64-v4",), _V4),
    Variant("avx2-vnni", ("-march=x86-64-v3", "-mavxvnni"), _V3 | {"avx_vnni"}),
    Variant("avx2", ("-march=x86-64-v3",), _V3),
)


def prebuilt_library(directory: Path, cpu_flags: frozenset[str]) -> Path | None:
    """The library of ``directory`` for this processor, made of these very sources, if there is."""
    for variant in VARIANTS:
        path = directory / _file_name(variant)
        if variant.cpu_flags <= cpu_flags and path.is_file():
            return path
    return None


def prebuild(directory: Path) -> list[Path]:
    """Compile every variant into ``directory``. Raises NativeUnavailable."""
    compiler = find_compiler()
    targets = [directory / _file_name(variant) for variant in VARIANTS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(compile_library, compiler, variant.compiler_flags, target)
            for variant, target in zip(VARIANTS, targets, strict=True)
        ]
    for job in jobs:
        job.result()
    return targets


def _file_name(variant: Variant) -> str:
    return f"{variant.name}-{source_digest()}.so"


if __name__ == "__main__":
    for library in prebuild(Path(sys.argv[1])):
        print(library)
