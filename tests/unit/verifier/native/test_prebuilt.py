"""Kernels compiled ahead: the widest that the processor runs, of these very sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark.verifier.native import build, prebuilt
from dspark.verifier.native.compiler import NativeUnavailable

V3 = frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe", "sse4_2"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
# Writes its flags, so that a test can see what was asked for.
FAKE_COMPILER = """#!/bin/sh
for last; do :; done
echo "$@" > "$last"
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    compiler = tmp_path / "fake-c++"
    compiler.write_text(FAKE_COMPILER)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    prebuilt.prebuild(tmp_path / "kernels")
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("DSPARK_PREBUILT_KERNELS", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.mark.parametrize(
    ("cpu_flags", "name", "compiled_with"),
    [
        (V3, "avx2", "-march=x86-64-v3 "),
        (V3 | {"avx_vnni"}, "avx2-vnni", "-march=x86-64-v3 -mavxvnni"),
        (V4, "avx512", "-march=x86-64-v4 "),
        (V4 | {"avx512_vnni", "avx_vnni"}, "avx512-vnni", "-march=x86-64-v4 -mavx512vnni"),
    ],
)
def test_a_processor_runs_the_widest_variant(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    cpu_flags: frozenset[str],
    name: str,
    compiled_with: str,
) -> None:
    monkeypatch.setattr(build, "_cpu_flags", lambda: cpu_flags)
    library = build.build_library()
    assert library.parent == directory
    assert library.name.rpartition("-")[0] == name
    assert compiled_with in library.read_text()


def test_a_processor_below_every_variant_needs_a_compiler(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_cpu_flags", lambda: frozenset({"avx2", "f16c", "fma"}))
    with pytest.raises(NativeUnavailable, match=r"no C\+\+ compiler"):
        build.build_library()


def test_libraries_of_other_sources_are_not_used(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_cpu_flags", lambda: V3)
    monkeypatch.setattr(prebuilt, "source_digest", lambda: "of-other-sources")
    with pytest.raises(NativeUnavailable, match=r"no C\+\+ compiler"):
        build.build_library()


def test_a_failing_compiler_leaves_no_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "failing-c++"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(NativeUnavailable, match="failed"):
        prebuilt.prebuild(tmp_path / "kernels")
    assert list((tmp_path / "kernels").iterdir()) == []
