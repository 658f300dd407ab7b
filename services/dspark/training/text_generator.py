"""Lets the target write many texts side by side, with its hidden states where they are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dspark.sampling import SamplingParams
from dspark.step import SequenceAdmission, SequenceWork, StepPlan, WorkResult, WorkStatus
from dspark.verifier.engine import Engine

# All that is pending of a text is computed at once, prompts too.
_ALL = 1 << 20
_NO_FEATURES = np.empty((0, 0, 0), dtype=np.uint16)


@dataclass(frozen=True, slots=True)
class WritingJob:
    """A prompt to continue; ``tag`` comes back with the text."""

    prompt_ids: tuple[int, ...]
    sampling: SamplingParams
    tag: object = None
    wants_features: bool = True


@dataclass(frozen=True, slots=True)
class WrittenText:
    """What became of a job.

    ``features`` is bfloat16 as uint16 [num_tokens - 1, num_layers, hidden_size]: of all tokens,
    prompt included, except the last, which was never computed; empty unless wanted.
    """

    job: WritingJob
    token_ids: tuple[int, ...]
    ended: bool
    features: NDArray[np.uint16]


@dataclass(slots=True)
class _Running:
    job: WritingJob
    token_ids: list[int] = field(default_factory=list)
    features: list[NDArray[np.uint16]] = field(default_factory=list)

    def text(self, ended: bool) -> WrittenText:
        features = np.concatenate(self.features) if self.features else _NO_FEATURES
        return WrittenText(self.job, tuple(self.token_ids), ended, features)


class TextGenerator:
    """Runs jobs through an engine, at most ``max_texts`` at a time, in steps without trees."""

    def __init__(self, engine: Engine, max_texts: int, layers: tuple[int, ...] = ()) -> None:
        self._engine = engine
        self._max_texts = max_texts
        self._layers = layers
        self._running: dict[str, _Running] = {}
        self._num_jobs = 0
        self._step_id = 0

    def write(self, jobs: Iterable[WritingJob]) -> Iterator[WrittenText]:
        """The finished texts, in the order in which they end. Jobs are drawn as places free up."""
        waiting = iter(jobs)
        while True:
            admissions = self._admit(waiting)
            if not self._running:
                return
            yield from self._step(admissions)

    def _admit(self, waiting: Iterator[WritingJob]) -> list[SequenceAdmission]:
        admissions: list[SequenceAdmission] = []
        while len(self._running) < self._max_texts:
            job = next(waiting, None)
            if job is None:
                break
            self._num_jobs += 1
            name = str(self._num_jobs)
            self._running[name] = _Running(job)
            num_prompt = len(job.prompt_ids)
            admissions.append(
                SequenceAdmission(
                    name, 1, job.prompt_ids, num_prompt, job.sampling, use_prefix_cache=False
                )
            )
        return admissions

    def _step(self, admissions: list[SequenceAdmission]) -> Iterator[WrittenText]:
        self._step_id += 1
        plan = StepPlan(
            scheduler_id="training",
            step_id=self._step_id,
            admissions=tuple(admissions),
            work=tuple(
                SequenceWork(
                    name,
                    1,
                    len(running.job.prompt_ids) + len(running.token_ids),
                    _ALL,
                    num_features=_ALL if self._layers and running.job.wants_features else 0,
                )
                for name, running in self._running.items()
            ),
            feature_layers=self._layers,
        )
        for result in self._engine.step(plan).results:
            yield from self._take(result)

    def _take(self, result: WorkResult) -> Iterator[WrittenText]:
        if result.status is not WorkStatus.DONE:
            raise RuntimeError(f"the engine did not run a text: {result.status.name}")
        running = self._running[result.request_id]
        running.token_ids.extend(result.committed_token_ids)
        if result.features is not None:
            flat = np.frombuffer(result.features.data, dtype="<u2")
            running.features.append(flat.reshape(result.features.shape))
        if result.finish_reason is not None:
            del self._running[result.request_id]
            yield running.text(result.stop_token_id is not None)
