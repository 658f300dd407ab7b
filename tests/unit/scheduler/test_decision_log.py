"""What is logged of decisions, and what policies would have made of it."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from dspark.scheduler.decision_log import DecisionLog, LoggedStep, Offer, nodes_of
from dspark.scheduler.decision_replay import DecisionReplay
from dspark.scheduler.logged_calibration import calibration_errors
from dspark.scheduler.outcomes import Outcome
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import PolicySettings
from dspark.token_tree import TokenTree, chain

ROW_MS = tuple(20.0 + count for count in range(16))
OFFER = Offer(
    "r", 15, 0.5, 4, (0, 1, 2, 3), (0.9,) * 4, (0.9, 0.81, 0.73, 0.66), (1,) * 4, ("a",), (0, 1)
)
STEP = LoggedStep(1, 1, 15, 2.0, 1.5, 0.05, ROW_MS, (OFFER,))


def test_a_step_is_written_once_its_trees_are_decided(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = DecisionLog(path)
    outcome = Outcome(chain([1, 2, 3, 4], "a"))
    log.add(STEP, {0: outcome})
    outcome.follow((1, 2, 9))
    log.close()
    (line,) = path.read_text().splitlines()
    assert LoggedStep.from_json(line) == replace(
        STEP, offers=(replace(OFFER, tried=(0, 1, 2), path=(0, 1)),)
    )


def test_lines_come_in_order_and_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = DecisionLog(path)
    for number in range(200):
        log.add(replace(STEP, num_rows=number), {})
    assert 100 < len(path.read_text().splitlines()) <= 200
    log.close()
    steps = [LoggedStep.from_json(line) for line in path.read_text().splitlines()]
    assert [step.num_rows for step in steps] == list(range(200))


def test_neither_tokens_nor_text_are_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = DecisionLog(path)
    outcome = Outcome(chain([123456, 654321], "a"))
    log.add(STEP, {0: outcome})
    outcome.follow((123456, 7))
    log.close()
    assert "123456" not in path.read_text() and "654321" not in path.read_text()


def test_a_file_that_cannot_be_written_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = DecisionLog(tmp_path)
    with caplog.at_level(logging.ERROR):
        for _ in range(300):
            log.add(STEP, {})
    assert len(caplog.records) == 1 and str(tmp_path) in caplog.text


@pytest.mark.parametrize("line", ["", "{}", "[]", "7", '{"offers": []}', '{"offers": [{"a": 1}]}'])
def test_a_line_that_is_no_step_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        LoggedStep.from_json(line)


def test_nodes_of_a_part_are_found_in_the_whole() -> None:
    whole = TokenTree((1, 2, 3, 4), (0, 0, 1, 2), (1,) * 4, (0.5,) * 4, ("a",))
    for nodes in ((0,), (1, 3), (0, 1, 2, 3), ()):
        part = whole.subtree(nodes) if nodes else TokenTree()
        assert nodes_of(part, whole) == nodes


def replayed(policy: str, *steps: LoggedStep, **settings: float) -> DecisionReplay:
    replay = DecisionReplay(POLICIES[policy](PolicySettings(**settings)))  # type: ignore[arg-type]
    replay.run(steps)
    return replay


def test_off_gets_one_token_a_request_for_the_time_of_its_row() -> None:
    totals = replayed("off", STEP, STEP).totals
    assert (totals.tokens, totals.asked, totals.ms) == (2, 0, 2 * 22.0)


def test_fixed_gets_what_its_nodes_were_right_about_and_pays_for_them() -> None:
    step = replace(STEP, offers=(replace(OFFER, path=(0, 1, 2)),))
    totals = replayed("fixed", step, num_draft_tokens=2).totals
    assert (totals.tokens, totals.nodes) == (3, 2)
    assert totals.ms == pytest.approx(2.0 + 22.0 + 1.5)
    assert totals.acceptance_length == 3.0


def test_a_request_that_was_not_asked_then_has_nothing_to_offer() -> None:
    silent = Offer("r", 15, 0.5)
    totals = replayed("fixed", replace(STEP, offers=(silent,))).totals
    assert (totals.tokens, totals.asked, totals.unknown) == (1, 1, 1)


def test_the_economic_policy_stops_where_offers_turn_out_bad() -> None:
    bad = replace(STEP, offers=(replace(OFFER, survivals=(0.04, 0.03, 0.02, 0.01)),))
    totals = replayed("economic", *[bad] * 200, explore_share=0.0).totals
    assert totals.nodes == 0 and totals.asked < 20


def test_json_has_numbers_that_json_has() -> None:
    assert json.loads(STEP.to_json())["row_ms"][1] == 21.0


def test_calibration_errors_are_those_of_tried_nodes_by_source() -> None:
    tree = Offer(
        "r", 15, 0.5, 4, (0, 1), (0.9, 0.9), (0.8, 0.4), (0b01, 0b11), ("a", "b"), (), (0, 1), (0,)
    )
    errors = calibration_errors([replace(STEP, offers=(tree,))] * 1000)
    # The first node is predicted at 0.8 and always right, the second at 0.5 and always wrong.
    assert errors == pytest.approx({"a": (0.2 + 0.5) / 2, "b": 0.5}, abs=1e-3)
    assert calibration_errors([STEP]) == {}
