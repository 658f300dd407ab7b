"""Building the kernels: once, never half, and a clear reason where it cannot be done."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dspark.verifier.native import build
from dspark.verifier.native.compiler import NativeUnavailable

# Counts its runs and writes the output slowly, in two parts.
FAKE_COMPILER = """#!/bin/sh
if [ "$1" = --version ]; then echo fake 1.0; exit 0; fi
for last; do :; done
echo run >> "$(dirname "$0")/runs"
printf half > "$last"; sleep 0.2; printf whole > "$last"
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "fake-c++"
    path.write_text(FAKE_COMPILER)
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    monkeypatch.setenv("DSPARK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_cpu_flags", lambda: frozenset({"avx2", "f16c", "fma"}))
    return path


def runs_of(compiler: Path) -> int:
    return len((compiler.parent / "runs").read_text().splitlines())


def test_a_second_start_compiles_nothing(compiler: Path) -> None:
    first = build.build_library()
    assert build.build_library() == first
    assert first.read_text() == "whole"
    assert runs_of(compiler) == 1


def test_starts_at_the_same_time_see_whole_files(compiler: Path) -> None:
    seen: list[str] = []
    starts = [
        threading.Thread(target=lambda: seen.append(build.build_library().read_text()))
        for _ in range(4)
    ]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert seen == ["whole"] * 4


def test_another_compiler_makes_another_file(compiler: Path) -> None:
    first = build.build_library()
    compiler.write_text(FAKE_COMPILER.replace("fake 1.0", "fake 2.0"))
    assert build.build_library() != first


def test_no_compiler(compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NativeUnavailable, match=r"no C\+\+ compiler"):
        build.build_library()


def test_a_failing_compiler_is_quoted(compiler: Path) -> None:
    compiler.write_text("#!/bin/sh\necho out of paper >&2\nexit 1\n")
    with pytest.raises(NativeUnavailable, match="out of paper"):
        build.build_library()


def test_a_processor_without_avx2(compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_cpu_flags", lambda: frozenset({"f16c", "fma"}))
    with pytest.raises(NativeUnavailable, match="lacks avx2"):
        build.build_library()
