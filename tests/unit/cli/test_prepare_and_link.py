"""The link that services read: made, moved, and left alone when the model cannot be prepared."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark.cli.models.__main__ import main, point


def model_in(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (directory / name).write_text("{}")
    return directory


def test_a_link_inside_its_folder_survives_another_mount(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    model = model_in(volume / "models" / "one")
    point(volume / "model", model)
    moved = volume.rename(tmp_path / "elsewhere")
    assert (moved / "model").resolve() == moved / "models" / "one"


def test_a_second_model_moves_the_link(tmp_path: Path) -> None:
    link = tmp_path / "volume" / "model"
    for name in ("one", "two"):
        model = model_in(tmp_path / "models" / name)
        assert main([str(model), str(link)]) == 0
        assert link.resolve() == model
    assert [path.name for path in link.parent.iterdir()] == ["model"]


def test_a_model_that_cannot_be_leaves_the_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "model"
    model = model_in(tmp_path / "good")
    assert main([str(model), str(link)]) == 0
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty"), str(link)]) == 1
    assert "config.json" in capsys.readouterr().err
    assert main(["no-such-model", str(link)]) == 2
    assert link.resolve() == model
