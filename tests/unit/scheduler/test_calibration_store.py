"""What was learnt of scores outlives a restart."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from dspark.scheduler.calibration import Calibration
from dspark.scheduler.calibration_store import CalibrationStore
from dspark.scheduler.outcomes import Outcome
from dspark.token_tree import chain

TREE = chain([1, 2], "a", 0.9)


def teach(calibration: Calibration, times: int = 100) -> None:
    for _ in range(times):
        outcome = Outcome(TREE)
        outcome.follow((9,))
        calibration.update(outcome)


def test_a_model_finds_what_was_learnt_of_it(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "calibration.json")
    store = CalibrationStore.load(path)
    teach(store.of("one"))
    store.save()
    again = CalibrationStore.load(path)
    assert again.of("one").survivals(TREE) == store.of("one").survivals(TREE)
    assert again.of("one").survivals(TREE)[0] < 0.1
    assert again.of("another").survivals(TREE)[0] == pytest.approx(0.9)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": 1, "models": {}}',
        '{"format": 2, "models": {"one": [[["a"], 1]]}}',
        '{"format": 2, "models": {"one": [[[["a"]], NaN, 1]]}}',
        '{"format": 2, "models": {"one": [[[["a"]], -1, 1]]}}',
        '{"format": 2, "models": {"one": 7}}',
    ],
)
def test_a_file_that_is_of_no_use_is_left_aside(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(content)
    with caplog.at_level(logging.WARNING):
        store = CalibrationStore.load(str(path))
    assert store.of("one").survivals(TREE)[0] == pytest.approx(0.9)
    assert len(caplog.records) == 1
    store.save()
    assert CalibrationStore.load(str(path)).of("one").survivals(TREE)[0] == pytest.approx(0.9)


def test_where_nothing_can_be_written_it_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    store = CalibrationStore.load(str(tmp_path / "file" / "calibration.json"))
    store.of("one")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        store.save()
        store.save()
    assert len(caplog.records) == 1


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = CalibrationStore.load("")
    store.of("one")
    store.save()
    assert list(tmp_path.iterdir()) == []
