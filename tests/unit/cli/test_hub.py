"""Hub ids, with the hub's own cache in a folder and no network."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark.cli.failure import CliError
from dspark.cli.models.hub import fetch_snapshot, is_hub_id
from dspark.cli.progress import Progress

COMMIT = "a" * 40


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


@pytest.mark.parametrize("text", ["org/name", "Org-1/Name.2_x"])
def test_hub_ids(text: str) -> None:
    assert is_hub_id(text)


@pytest.mark.parametrize("text", ["name", "a/b/c", "/a/b", "./a", "a/", "../a", "~/x", "a b/c"])
def test_other_texts(text: str) -> None:
    assert not is_hub_id(text)


def test_a_snapshot_in_the_cache_needs_no_network(offline: Path) -> None:
    repository = offline / "models--org--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert fetch_snapshot("org/name", Progress(quiet=True)) == snapshot


def test_without_network_the_error_says_what_would_do() -> None:
    with pytest.raises(CliError, match="cannot be reached"):
        fetch_snapshot("org/absent", Progress(quiet=True))
