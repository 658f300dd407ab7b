"""The CPU kernels for this machine: compiled ahead, else here, once per source and processor."""

from __future__ import annotations

import logging
import os
import platform
import subprocess
from pathlib import Path

from dspark.verifier.native.compiler import (
    NativeUnavailable,
    compile_library,
    digest_of,
    find_compiler,
    source_digest,
)
from dspark.verifier.native.prebuilt import prebuilt_library

log = logging.getLogger(__name__)

_FOR_THIS_PROCESSOR = ("-march=native",)
_NEEDED_CPU_FLAGS = frozenset({"avx2", "f16c", "fma"})


def cache_dir() -> Path:
    """Where derived files are kept: DSPARK_CACHE_DIR, else ~/.cache/dspark."""
    return Path(os.environ.get("DSPARK_CACHE_DIR") or Path.home() / ".cache" / "dspark")


def build_library() -> Path:
    """The path of the shared library for this host: one of DSPARK_PREBUILT_KERNELS (a directory),
    else from the cache, where it is compiled if need be.

    Raises NativeUnavailable when the processor or the compiler will not do.
    """
    cpu_flags = _cpu_flags()
    if missing := _NEEDED_CPU_FLAGS - cpu_flags:
        raise NativeUnavailable(f"the processor lacks {', '.join(sorted(missing))}")
    prebuilt = os.environ.get("DSPARK_PREBUILT_KERNELS")
    if prebuilt and (library := prebuilt_library(Path(prebuilt), cpu_flags)):
        return library
    compiler = find_compiler()
    target = cache_dir() / "native" / f"{_digest(compiler, cpu_flags)}.so"
    if not target.exists():
        log.info("compiling the CPU kernels with %s (once)", compiler)
        compile_library(compiler, _FOR_THIS_PROCESSOR, target)
    return target


def _cpu_flags() -> frozenset[str]:
    if platform.machine() not in ("x86_64", "AMD64"):
        return frozenset()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def _digest(compiler: str, cpu_flags: frozenset[str]) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    return digest_of([version, source_digest().encode(), " ".join(sorted(cpu_flags)).encode()])
