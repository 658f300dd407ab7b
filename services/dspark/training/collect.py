"""Fills a text store with the target's answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from dspark.sampling import SamplingParams
from dspark.training.text_generator import TextGenerator, WritingJob, WrittenText
from dspark.training.text_store import TextStore

REPORT_INTERVAL_S = 5.0


def answer_jobs(
    prompts: Sequence[tuple[int, ...]], max_answer_tokens: int, seed: int
) -> Iterator[WritingJob]:
    """Each prompt once: every second one greedy, the others at temperature 0.7."""
    for index, prompt_ids in enumerate(prompts):
        temperature = 0.7 if index % 2 else 0.0
        sampling = SamplingParams(
            temperature=temperature, seed=seed + index, max_tokens=max_answer_tokens
        )
        yield WritingJob(prompt_ids, sampling)


def collect(
    generator: TextGenerator,
    jobs: Iterator[WritingJob],
    is_kept: Callable[[WrittenText], bool],
    store: TextStore,
    max_answer_tokens: int,
    on_progress: Callable[[str], None],
) -> None:
    """Run jobs until the store holds so many answer tokens or there are no more.

    What is in the store already counts, so a killed run goes on where it was.
    """
    before, started, reported = store.num_answer_tokens, time.monotonic(), 0.0
    if before >= max_answer_tokens:
        return
    for text in generator.write(jobs):
        if is_kept(text):
            token_ids = (*text.job.prompt_ids, *text.token_ids)
            store.append(token_ids, len(text.job.prompt_ids), text.features)
        done, now = store.num_answer_tokens, time.monotonic()
        if done >= max_answer_tokens:
            break
        if now - reported > REPORT_INTERVAL_S and done > before:
            reported = now
            rate = (done - before) / (now - started)
            minutes = (max_answer_tokens - done) / rate / 60
            on_progress(f"{done:,} tokens, {rate:.0f} a second, {minutes:.0f} min to go")


def keeps_all(text: WrittenText) -> bool:
    """Of answers to given prompts none is dropped but empty ones."""
    return len(text.token_ids) > 1
