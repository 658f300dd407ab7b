"""Calls that are written down on their way."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dspark import clock
from dspark.errors import DeadlineExceeded
from dspark.proposal import (
    CandidatesInfo,
    CandidatesUpdate,
    DraftProposal,
    ProposeItem,
    ProposeOutcome,
    SourceRate,
)
from dspark.sampling import FinishReason, SamplingParams
from dspark.scheduler.call_record import CallRecord, Recorder
from dspark.step import (
    SequenceAdmission,
    SequenceWork,
    StepOutcome,
    StepPlan,
    VerifierInfo,
    VerifyCost,
    WorkResult,
    WorkStatus,
)
from dspark.token_tree import chain

INFO = VerifierInfo(
    "m",
    "d",
    100,
    50,
    frozenset({3, 2}),
    4,
    10,
    64,
    "strict",
    "k",
    "t",
    "cpu",
    (VerifyCost(1, 2.5),),
)
ITEM = ProposeItem("r", 1, 4, 7, 7)


class Time:
    """A clock that calls move on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Verifier:
    """Takes 20 ms for a step."""

    def __init__(self, time: Time, finish: FinishReason | None = None) -> None:
        self._time = time
        self._finish = finish

    async def info(self) -> VerifierInfo:
        return INFO

    async def is_ready(self) -> bool:
        return True

    async def step(self, plan: StepPlan) -> StepOutcome:
        self._time.now += 0.02
        results = tuple(
            WorkResult(w.request_id, 1, WorkStatus.DONE, 4, (9, 8), (1,), self._finish)
            for w in plan.work
        )
        return StepOutcome(plan.step_id, results=results, forward_ns=15_000_000, num_rows=5)


class Candidates:
    """Takes 3 ms, or fails after as long."""

    def __init__(self, time: Time, *, is_late: bool = False) -> None:
        self._time = time
        self._is_late = is_late

    async def info(self) -> CandidatesInfo:
        return CandidatesInfo(("a",), 4, (SourceRate("a", 0.5, 0.1),))

    async def observe(self, update: CandidatesUpdate, timeout_s: float) -> tuple[str, ...]:
        return ("x",)

    async def propose(
        self,
        update: CandidatesUpdate,
        items: Sequence[ProposeItem],
        timeout_s: float,
        traceparents: Sequence[str] = (),
    ) -> ProposeOutcome:
        self._time.now += 0.003
        if self._is_late:
            raise DeadlineExceeded("late")
        return ProposeOutcome((DraftProposal("r", 1, 4, chain([9, 7], "a", 0.123456)),))


def plan() -> StepPlan:
    admission = SequenceAdmission("r", 1, (1, 2, 3, 4), 4, SamplingParams())
    return StepPlan("s", 1, admissions=(admission,), work=(SequenceWork("r", 1, 4, 4),))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_steps_and_proposals_are_written_with_what_they_took(tmp_path: Path) -> None:
    time, path = Time(), tmp_path / "calls.jsonl"
    with clock.replaced(time):
        record = CallRecord(path)
        recorder = Recorder(record)
        verifier = recorder.verifier(Verifier(time))
        candidates = recorder.candidates(Candidates(time))
        assert await verifier.info() == INFO
        assert (await candidates.info()).sources == ("a",)
        outcome = await verifier.step(plan())
        time.now += 0.004
        proposals = await candidates.propose(CandidatesUpdate(), [ITEM], 1.0)
        time.now += 0.001
        await verifier.step(plan())
        record.close()
    assert outcome.results[0].committed_token_ids == (9, 8)
    assert len(proposals.proposals[0].tree) == 2
    told, named, first, asked, second = lines_of(path)
    assert told["verify_costs"] == [[1, 2.5, 0]] and told["eos_token_ids"] == [2, 3]
    assert named["rates"] == [{"name": "a", "ms_per_request": 0.5, "ms_per_node": 0.1}]
    assert (first["gap_ms"], second["gap_ms"]) == (None, pytest.approx(5.0))
    assert (first["call_ms"], first["forward_ms"], first["rows"]) == (20.0, 15.0, 5)
    assert (first["requests"], first["context"]) == (1, 4.0)
    assert first["starts"] == [["r", 4]] and first["commits"] == [["r", 4, [9, 8]]]
    assert asked["call_ms"] == 3.0
    assert asked["items"][0]["token_ids"] == [9, 7] and asked["items"][0]["scores"] == [0.1235] * 2


async def test_a_step_after_the_last_request_waited_for_work(tmp_path: Path) -> None:
    time, path = Time(), tmp_path / "calls.jsonl"
    with clock.replaced(time):
        record = CallRecord(path)
        verifier = Recorder(record).verifier(Verifier(time, FinishReason.LENGTH))
        await verifier.step(plan())
        time.now += 60.0
        await verifier.step(plan())
        record.close()
    assert [line["gap_ms"] for line in lines_of(path)] == [None, None]


async def test_what_came_too_late_was_an_empty_proposal(tmp_path: Path) -> None:
    time, path = Time(), tmp_path / "calls.jsonl"
    record = CallRecord(path)
    candidates = Recorder(record).candidates(Candidates(time, is_late=True))
    with pytest.raises(DeadlineExceeded):
        await candidates.propose(CandidatesUpdate(), [ITEM], 1.0)
    record.close()
    (line,) = lines_of(path)
    assert line["items"][0]["token_ids"] == []


async def test_a_file_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    time = Time()
    verifier = Recorder(CallRecord(tmp_path / "none" / "calls")).verifier(Verifier(time))
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert (await verifier.step(plan())).num_rows == 5
    assert len([r for r in caplog.records if "recorded no more" in r.message]) == 1


def test_without_a_record_clients_are_what_they_were() -> None:
    verifier, candidates = Verifier(Time()), Candidates(Time())
    recorder = Recorder(None)
    assert recorder.verifier(verifier) is verifier
    assert recorder.candidates(candidates) is candidates
