"""``dspark replay`` compares policies on a log of decisions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dspark.cli.__main__ import run
from dspark.scheduler.decision_log import LoggedStep, Offer
from dspark.scheduler.policy import POLICIES

OFFER = Offer(
    "r",
    15,
    0.1,
    4,
    (0, 1, 2, 3),
    (0.9,) * 4,
    (0.9, 0.81, 0.73, 0.66),
    (1,) * 4,
    ("suffix",),
    (0, 1),
    (0, 1, 2, 3),
    (0, 1, 2, 3),
)
STEP = LoggedStep(1, 1, 15, 2.0, 1.0, 0.05, tuple(20.0 + n for n in range(16)), (OFFER,))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "decisions"
    path.write_text(f"{STEP.to_json()}\n" * 50)
    return path


def test_every_policy_has_its_row(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(log)]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in POLICIES) and "suffix" in printed


def test_policies_and_their_settings_are_chosen(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert run(["replay", str(log), "--policy", "fixed", "--num-draft-tokens", "2"]) == 0
    arguments = ["--policy", "off", "--policy", "fixed", "--num-draft-tokens", "2"]
    assert run(["replay", str(log), *arguments, "--json", str(out)]) == 0
    results = json.loads(out.read_text())
    policies = results["policies"]
    assert list(policies) == ["off", "fixed"]
    assert policies["off"]["tokens"] == 50 and policies["fixed"]["tokens"] == 150
    assert policies["fixed"]["tokens_per_s"] == pytest.approx(1e3 * 3 / (2 + 22 + 1))
    assert results["calibration_errors"]["suffix"] == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "No such file"), ("", "no decisions"), ("{}\n", "line 1"), ("\x00\n", "line 1")],
)
def test_a_file_that_is_no_log_is_named(
    tmp_path: Path, content: str | None, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "decisions"
    if content is not None:
        path.write_text(content)
    assert run(["replay", str(path)]) == 2
    error = capsys.readouterr().err
    assert problem in error and str(path) in error


def test_a_broken_line_is_named_by_its_number(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text(log.read_text() + replace(STEP, num_rows=2).to_json()[:-5])
    assert run(["replay", str(log)]) == 2
    assert "line 51" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--min-survival", "0"], ["--min-survival", "nan"], ["--num-draft-tokens", "0"]],
)
def test_a_setting_out_of_range_is_refused(
    log: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(log), *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err
