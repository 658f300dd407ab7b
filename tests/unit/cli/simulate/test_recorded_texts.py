"""Proposals of a real run, judged by what the run went on to say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dspark.cli.failure import CliError
from dspark.cli.simulate.calibration_record import read_record
from dspark.cli.simulate.recorded_texts import texts_of

VERIFIER = {
    "kind": "verifier",
    "num_blocks": 10,
    "block_size": 16,
    "max_step_rows": 512,
    "max_model_len": 2048,
    "verify_costs": [[1, 10.0, 64]],
    "device": "cpu",
    "computes_ahead": False,
}


def step(commits: list[Any], starts: list[Any] | None = None) -> dict[str, Any]:
    took = {"gap_ms": 1.0, "call_ms": 12.0, "forward_ms": 10.0, "ahead_ms": 0.0}
    sizes = {"rows": 1, "ahead_rows": 0, "requests": 1, "context": 64.0}
    return {"kind": "step", **took, **sizes, "starts": starts or [], "commits": commits}


def propose(base_len: int, token_ids: list[int], parents: list[int]) -> dict[str, Any]:
    size = len(token_ids)
    tree = {"token_ids": token_ids, "parents": parents, "masks": [2] * size}
    item = {"id": "r", "base_len": base_len, **tree, "scores": [0.5] * size, "sources": ["b", "a"]}
    return {"kind": "propose", "call_ms": 2.0, "items": [item]}


LINES = [
    VERIFIER,
    {"kind": "candidates", "sources": ["a", "b"], "rates": []},
    step([["r", 5, [41]]], [["r", 5]]),
    propose(6, [42, 43, 99, 44], [0, 1, 1, 2]),
    # Only the first node was verified; the others are judged by the later tokens.
    step([["r", 6, [42]]]),
    step([["r", 7, [43]]]),
    propose(8, [], []),
    step([["r", 8, [44]]]),
]


def test_nodes_are_right_that_the_text_went_on_with() -> None:
    (text,) = texts_of(LINES, ["a", "b"])
    assert [proposal.at for proposal in text.proposals] == [1, 3]
    assert [proposal.right for proposal in text.proposals] == [(0, 1, 3), ()]
    # The bit of "a" is that of the sources, not that of the proposal.
    assert set(text.proposals[0].masks) == {1}


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_record_becomes_a_system(tmp_path: Path) -> None:
    system = read_record(written(tmp_path / "r.jsonl", LINES))
    assert (system.scheduler.step_ms, system.verifier.call_ms) == pytest.approx((1.0, 2.0))
    assert system.verifier.num_blocks == 10
    assert system.candidates is not None and system.candidates.call_ms == pytest.approx(2.0)


def test_a_run_without_candidates_has_none(tmp_path: Path) -> None:
    lines = [line for line in LINES if line["kind"] != "propose"]
    assert read_record(written(tmp_path / "r.jsonl", lines)).candidates is None


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "fewer than two steps"),
        (LINES[1:], "does not say what the verifier is like"),
        ([{"a": 1}], "no record of calls: KeyError"),
        ([[1, 2]], "no record of calls"),
        ([{**step([]), "gap_ms": "x"}] * 2, "no record of calls"),
    ],
)
def test_what_is_no_record_is_refused(
    tmp_path: Path, lines: list[dict[str, Any]], problem: str
) -> None:
    with pytest.raises(CliError, match=problem):
        read_record(written(tmp_path / "r.jsonl", lines))


def test_a_record_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="No such file"):
        read_record(tmp_path / "none")
