"""Writes down what each call to a verifier and its candidates took and gave, for simulations.

A line of JSON each, which ``dspark simulate --calibrate-from`` reads. Generated tokens are in it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from dspark.clock import monotonic
from dspark.proposal import CandidatesInfo, CandidatesUpdate, ProposeItem, ProposeOutcome
from dspark.scheduler.candidates_link import Candidates
from dspark.scheduler.verifier_link import Verifier
from dspark.step import SequenceWork, StepOutcome, StepPlan, VerifierInfo, WorkResult
from dspark.token_tree import TokenTree

log = logging.getLogger(__name__)

_FLUSH_S = 1.0
_DIGITS = 4


class CallRecord:
    """A file that grows; one that cannot be written to is given up, and the scheduler goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._has_failed = False
        self._flushed_at = monotonic()

    def write(self, kind: str, **values: Any) -> None:
        if self._has_failed:
            return
        try:
            if self._file is None:
                self._file = self._path.open("a", encoding="utf-8")
            self._file.write(json.dumps({"kind": kind, **values}, separators=(",", ":")) + "\n")
            if monotonic() - self._flushed_at > _FLUSH_S:
                self.flush()
        except OSError as error:
            self._has_failed = True
            log.error("calls are recorded no more: %s", error)

    def flush(self) -> None:
        """Raises OSError."""
        self._flushed_at = monotonic()
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """What comes later opens the file again."""
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            log.error("the end of the recorded calls is lost: %s", error)
        self._file = None


class RecordedVerifier:
    """A verifier whose calls are written down, with the time that passed since the one before."""

    def __init__(self, client: Verifier, record: CallRecord, worker: RecordedWorker) -> None:
        self._client = client
        self._record = record
        self._worker = worker

    async def info(self) -> VerifierInfo:
        info = await self._client.info()
        self._record.write("verifier", **_jsonable(asdict(info)))
        return info

    async def is_ready(self) -> bool:
        return await self._client.is_ready()

    async def step(self, plan: StepPlan) -> StepOutcome:
        gap_ms = self._worker.gap_ms()
        called = monotonic()
        outcome = await self._client.step(plan)
        ended = monotonic()
        if plan.work:
            self._record.write(
                "step",
                gap_ms=gap_ms,
                call_ms=round((ended - called) * 1e3, _DIGITS),
                forward_ms=outcome.forward_ns / 1e6,
                ahead_ms=outcome.ahead_ns / 1e6,
                rows=outcome.num_rows,
                ahead_rows=outcome.num_ahead_rows,
                requests=len(plan.work),
                context=_mean_context(plan.work, outcome.results),
                starts=[(each.request_id, each.num_prompt_tokens) for each in plan.admissions],
                commits=_commits(plan.work, outcome.results),
            )
        goes_on = any(result.finish_reason is None for result in outcome.results)
        # What writing it down took is no part of a step.
        self._worker.stepped(monotonic() if goes_on else None)
        return outcome


class RecordedCandidates:
    """A candidates service whose proposals are written down."""

    def __init__(self, client: Candidates, record: CallRecord, worker: RecordedWorker) -> None:
        self._client = client
        self._record = record
        self._worker = worker

    async def info(self) -> CandidatesInfo:
        info = await self._client.info()
        rates = [asdict(rate) for rate in info.rates]
        self._record.write("candidates", sources=list(info.sources), rates=rates)
        return info

    async def observe(self, update: CandidatesUpdate, timeout_s: float) -> tuple[str, ...]:
        return await self._client.observe(update, timeout_s)

    async def propose(
        self,
        update: CandidatesUpdate,
        items: Sequence[ProposeItem],
        timeout_s: float,
        traceparents: Sequence[str] = (),
    ) -> ProposeOutcome:
        called = monotonic()
        outcome = ProposeOutcome()
        try:
            outcome = await self._client.propose(update, items, timeout_s, traceparents)
        finally:
            took_ms = round((monotonic() - called) * 1e3, _DIGITS)
            trees = {proposal.request_id: proposal.tree for proposal in outcome.proposals}
            self._record.write(
                "propose",
                call_ms=took_ms,
                items=[_proposal(item, trees.get(item.request_id, TokenTree())) for item in items],
            )
            self._worker.proposed((monotonic() - called) * 1e3)
        return outcome


class RecordedWorker:
    """What the scheduler itself takes of a step: the time between its calls."""

    def __init__(self) -> None:
        self._stepped_at: float | None = None
        self._proposed_ms = 0.0

    def stepped(self, at: float | None) -> None:
        """A step was answered; None if nothing is left to do, so that the next one may wait."""
        self._stepped_at = at
        self._proposed_ms = 0.0

    def proposed(self, took_ms: float) -> None:
        self._proposed_ms += took_ms

    def gap_ms(self) -> float | None:
        if self._stepped_at is None:
            return None
        return round((monotonic() - self._stepped_at) * 1e3 - self._proposed_ms, _DIGITS)


class Recorder:
    """Puts what writes calls down between one worker and its services, if there is a record."""

    def __init__(self, record: CallRecord | None) -> None:
        self._record = record
        self._worker = RecordedWorker()

    def verifier(self, client: Verifier) -> Verifier:
        record = self._record
        return client if record is None else RecordedVerifier(client, record, self._worker)

    def candidates(self, client: Candidates) -> Candidates:
        record = self._record
        return client if record is None else RecordedCandidates(client, record, self._worker)


def _mean_context(work: Iterable[SequenceWork], results: Iterable[WorkResult]) -> float:
    """Tokens that the last known row of a sequence attends to, averaged over the sequences."""
    lengths = {entry.request_id: entry.base_len for entry in work}
    ends = [
        lengths[result.request_id] if result.committed_token_ids else result.num_computed_tokens
        for result in results
    ]
    return round(sum(ends) / len(ends), 1) if ends else 0.0


def _commits(
    work: Iterable[SequenceWork], results: Iterable[WorkResult]
) -> list[tuple[str, int, tuple[int, ...]]]:
    lengths = {entry.request_id: entry.base_len for entry in work}
    return [
        (result.request_id, lengths[result.request_id], result.committed_token_ids)
        for result in results
        if result.committed_token_ids
    ]


def _proposal(item: ProposeItem, tree: TokenTree) -> dict[str, Any]:
    return {
        "id": item.request_id,
        "base_len": item.base_len,
        "token_ids": tree.token_ids,
        "parents": tree.parents,
        "masks": tree.source_masks,
        "scores": [round(score, _DIGITS) for score in tree.scores],
        "sources": tree.source_names,
    }


def _jsonable(values: dict[str, Any]) -> dict[str, Any]:
    return {k: sorted(v) if isinstance(v, frozenset) else v for k, v in values.items()}
