"""Directories of a run."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from dspark.cli.supervision import runtime_dir as module
from dspark.cli.supervision.runtime_dir import log_dir, runtime_dir


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_private_and_gone_afterwards() -> None:
    with runtime_dir() as path:
        assert path.stat().st_mode & 0o777 == 0o700
        (path / "x.sock").touch()
    assert not path.exists()


def test_leftovers_go_and_running_ones_stay(temporary: Path) -> None:
    dead = temporary / "dspark-dead"
    dead.mkdir()
    (dead / "lock").touch()
    stranger = temporary / "dspark-stranger"
    stranger.mkdir()
    with runtime_dir() as first, runtime_dir() as second:
        assert first.is_dir()
        assert second.is_dir()
        assert not dead.exists()
        assert stranger.is_dir()


def test_old_logs_go(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_LOGS", 2)
    for day in range(1, 5):
        (cache_dir / "logs" / f"2020010{day}-000000-1").mkdir(parents=True)
    new = log_dir()
    kept = sorted(path.name for path in (cache_dir / "logs").iterdir())
    assert kept == ["20200104-000000-1", new.name]
