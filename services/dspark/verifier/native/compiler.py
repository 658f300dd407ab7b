"""Compiles the CPU kernels into a shared library."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

_SOURCE_DIR = Path(__file__).parent
_MAIN_SOURCE = _SOURCE_DIR / "kernels.cpp"
# Contraction would let the compiler choose where to round; fused operations are written out.
_FLAGS = ("-O3", "-std=c++17", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")


class NativeUnavailable(Exception):
    """The kernels cannot be used here; the message says why."""


def find_compiler() -> str:
    """The compiler that CXX names, else a usual one. Raises NativeUnavailable."""
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else ("g++", "c++", "clang++"):
        if path := shutil.which(name):
            return path
    raise NativeUnavailable("no C++ compiler was found (install g++)")


def source_digest() -> str:
    """Names the sources and the flags that all builds share."""
    paths = [*sorted(_SOURCE_DIR.glob("*.h")), _MAIN_SOURCE]
    return digest_of([" ".join(_FLAGS).encode(), *(path.read_bytes() for path in paths)])


def digest_of(parts: Iterable[bytes]) -> str:
    """A short name of ``parts``, in their order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:24]


def compile_library(compiler: str, processor_flags: tuple[str, ...], target: Path) -> None:
    """Compile for the processor that the flags say. Raises NativeUnavailable."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A private name and a rename: processes that start together never see half a file.
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            output = Path(scratch) / target.name
            command = [compiler, *_FLAGS, *processor_flags, str(_MAIN_SOURCE), "-o", str(output)]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                last_lines = "\n".join(result.stderr.splitlines()[-5:])
                raise NativeUnavailable(f"the C++ compiler failed: {last_lines}")
            os.replace(output, target)
    except OSError as error:
        raise NativeUnavailable(f"the kernels cannot be built: {error}") from error
