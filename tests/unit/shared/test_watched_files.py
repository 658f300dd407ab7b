from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from dspark.config import SettingError
from dspark.watched_files import WatchedFiles


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def watch(path: Path, clock: Clock) -> WatchedFiles[str]:
    def read() -> str:
        text = path.read_text() if path.exists() else "bad: gone"
        if text.startswith("bad"):
            raise SettingError(text)
        return text

    return WatchedFiles((str(path), ""), read, check_s=1.0, clock=clock)


def test_a_change_is_seen_at_the_next_look(tmp_path: Path) -> None:
    path, clock = tmp_path / "f", Clock()
    path.write_text("one")
    watched = watch(path, clock)
    path.write_text("three")
    clock.now += 0.5
    assert watched.value() == "one"
    clock.now += 0.5
    assert watched.value() == "three"


def test_without_a_change_the_value_stays_the_same_object(tmp_path: Path) -> None:
    path, clock = tmp_path / "f", Clock()
    path.write_text("one")
    watched = watch(path, clock)
    first = watched.value()
    clock.now += 10
    assert watched.value() is first


def test_a_symbolic_link_that_changes_is_a_change(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, ns=(1, 1))
    link, clock = tmp_path / "f", Clock()
    link.symlink_to("a")
    watched = watch(link, clock)
    (tmp_path / "new").symlink_to("b")
    os.replace(tmp_path / "new", link)
    clock.now += 1
    assert watched.value() == "b"


def test_what_is_broken_is_logged_once_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "f", Clock()
    path.write_text("one")
    watched = watch(path, clock)
    for broken in ("bad: half", "bad: otherwise", None):
        caplog.clear()
        path.unlink() if broken is None else path.write_text(broken)
        for _ in range(3):
            clock.now += 1
            assert watched.value() == "one"
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
    path.write_text("good")
    clock.now += 1
    assert watched.value() == "good"


def test_what_is_broken_at_first_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="gone"):
        watch(tmp_path / "nothing", Clock())
