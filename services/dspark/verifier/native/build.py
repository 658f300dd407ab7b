"""Builds the CPU kernels for this machine, once per source, compiler and processor."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

log = logging.getLogger(__name__)

_SOURCE_DIR = Path(__file__).parent
_MAIN_SOURCE = _SOURCE_DIR / "kernels.cpp"
# Contraction would let the compiler choose where to round; fused operations are written out.
_FLAGS = (
    "-O3",
    "-march=native",
    "-std=c++17",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-pthread",
)
_NEEDED_CPU_FLAGS = frozenset({"avx2", "fma"})


class NativeUnavailable(Exception):
    """The kernels cannot be used here; the message says why."""


def cache_dir() -> Path:
    """Where derived files are kept: DSPARK_CACHE_DIR, else ~/.cache/dspark."""
    return Path(os.environ.get("DSPARK_CACHE_DIR") or Path.home() / ".cache" / "dspark")


def build_library() -> Path:
    """The path of the shared library for this host, compiled unless it is in the cache.

    Raises NativeUnavailable when the processor or the compiler will not do.
    """
    cpu_flags = _cpu_flags()
    if missing := _NEEDED_CPU_FLAGS - cpu_flags:
        raise NativeUnavailable(f"the processor lacks {', '.join(sorted(missing))}")
    compiler = _compiler()
    target = cache_dir() / "native" / f"{_digest(compiler, cpu_flags)}.so"
    if not target.exists():
        _compile(compiler, target)
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


def _compiler() -> str:
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else ("g++", "c++", "clang++"):
        if path := shutil.which(name):
            return path
    raise NativeUnavailable("no C++ compiler was found (install g++)")


def _digest(compiler: str, cpu_flags: frozenset[str]) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    parts = [version, " ".join(_FLAGS).encode(), " ".join(sorted(cpu_flags)).encode()]
    parts += [path.read_bytes() for path in sorted(_SOURCE_DIR.glob("*.h"))]
    parts.append(_MAIN_SOURCE.read_bytes())
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:24]


def _compile(compiler: str, target: Path) -> None:
    log.info("compiling the CPU kernels with %s (once)", compiler)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A private name and a rename: processes that start together never see half a file.
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            output = Path(scratch) / target.name
            command = [compiler, *_FLAGS, str(_MAIN_SOURCE), "-o", str(output)]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                last_lines = "\n".join(result.stderr.splitlines()[-5:])
                raise NativeUnavailable(f"the C++ compiler failed: {last_lines}")
            os.replace(output, target)
    except OSError as error:
        raise NativeUnavailable(f"the kernels cannot be built: {error}") from error
