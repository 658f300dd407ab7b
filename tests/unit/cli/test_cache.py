"""Entries of the model cache appear whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dspark.cli.models.cache import building, cache_root, entry_path


def test_the_root_follows_the_environment(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cache_root() == cache_dir
    monkeypatch.delenv("DSPARK_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == tmp_path / "home" / ".cache" / "dspark"


def test_an_entry_is_named_by_model_and_content() -> None:
    path = entry_path("org/my model", "a" * 64)
    assert path.name.startswith("org-my-model-" + "a" * 16)
    assert path != entry_path("org/my model", "b" * 64)


def test_a_finished_build_becomes_the_entry(cache_dir: Path) -> None:
    entry = entry_path("m", "1" * 64)
    with building(entry) as workspace:
        assert workspace is not None
        (workspace / "file").write_text("x")
        assert not entry.exists()
    assert (entry / "file").read_text() == "x"
    with building(entry) as again:
        assert again is None


def test_a_failed_build_leaves_nothing(cache_dir: Path) -> None:
    entry = entry_path("m", "1" * 64)
    with pytest.raises(RuntimeError), building(entry) as workspace:
        assert workspace is not None
        (workspace / "half").write_text("x")
        raise RuntimeError
    assert [path.name for path in entry.parent.iterdir()] == [f"{entry.name}.lock"]


def test_leftovers_of_a_killed_build_are_removed(cache_dir: Path) -> None:
    entry = entry_path("m", "1" * 64)
    leftover = entry.parent / f".{entry.name}.killed"
    leftover.mkdir(parents=True)
    with building(entry):
        assert not leftover.exists()


def test_two_builders_of_one_entry_build_it_once(cache_dir: Path) -> None:
    entry = entry_path("m", "1" * 64)
    inside, go_on, found = threading.Event(), threading.Event(), []

    def first() -> None:
        with building(entry):
            inside.set()
            go_on.wait(5)

    def second() -> None:
        with building(entry) as workspace:
            found.append(workspace)

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    inside.wait(5)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(5)
    assert found == [None]
