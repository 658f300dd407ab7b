from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from dspark.errors import InvalidArgument
from dspark.training.loops import is_loop
from dspark.training.openings import OPENINGS
from dspark.training.overlap import Overlap
from dspark.training.prompt_layout import PromptLayout
from dspark.training.self_generation import MAX_PROMPT_TOKENS, SelfGeneration
from dspark.training.text_generator import WritingJob, WrittenText

LAYOUT = PromptLayout("<user>", "<model>")
# Long enough to be worked on, and no loop.
TEXT = " ".join(f"Sentence {number} is about {number * 37}." for number in range(12))


def generation(reserved: tuple[str, ...] = (), seed: int = 1) -> SelfGeneration:
    """Over a tokenizer of characters."""
    return SelfGeneration(
        lambda text: [ord(character) for character in text],
        lambda token_ids: "".join(map(chr, token_ids)),
        [LAYOUT],
        reserved=Overlap(reserved),
        max_answer_tokens=50,
        seed=seed,
    )


def words(job: WritingJob) -> str:
    return "".join(map(chr, job.prompt_ids))


def written(job: WritingJob, text: str, ended: bool = True) -> WrittenText:
    token_ids = tuple(ord(character) for character in text) + ((0,) if ended else ())
    return WrittenText(job, token_ids, ended, np.empty((0, 0, 0), dtype=np.uint16))


def test_requests_are_invented_and_then_asked() -> None:
    made = generation()
    jobs = made.jobs()
    invented = next(job for job in jobs if not job.wants_features)
    assert words(invented).removeprefix("<user>") in OPENINGS
    assert not made.take(written(invented, " do you know?"))
    asked = next(jobs)
    assert words(asked) == f"{words(invented)} do you know?<model>"
    assert asked.wants_features
    assert made.take(written(asked, "I know that."))


def test_a_request_that_does_not_end_is_dropped() -> None:
    made = generation()
    jobs = made.jobs()
    invented = next(job for job in jobs if not job.wants_features)
    made.take(written(invented, " do you know", ended=False))
    assert all(words(invented) + " do you know" not in words(job) for job in islice(jobs, 50))


def test_answers_are_greedy_and_drawn_and_reproducible() -> None:
    first = list(islice(generation(seed=5).jobs(), 60))
    assert first == list(islice(generation(seed=5).jobs(), 60))
    assert first != list(islice(generation(seed=6).jobs(), 60))
    temperatures = {job.sampling.temperature for job in first if job.wants_features}
    assert temperatures == {0.0, 0.7}
    assert all(len(job.prompt_ids) <= MAX_PROMPT_TOKENS for job in first)


def test_earlier_answers_become_texts_to_work_on() -> None:
    made = generation()
    jobs = made.jobs()
    answered = next(job for job in jobs if job.wants_features)
    assert made.take(written(answered, TEXT))
    assert any("Sentence 3 is about 111." in words(job) for job in islice(jobs, 60))


def test_two_of_three_loops_are_dropped() -> None:
    made = generation()
    job = next(job for job in made.jobs() if job.wants_features)
    assert [made.take(written(job, "ab" * 40)) for _ in range(6)] == [False, False, True] * 2


def test_reserved_requests_are_never_asked() -> None:
    every = {words(job) for job in islice(generation().jobs(), 300) if job.wants_features}
    chosen = next(text for text in sorted(every) if len(text.split()) > 8)
    reserved = (chosen.removeprefix("<user>").removesuffix("<model>"),)
    left = {words(job) for job in islice(generation(reserved).jobs(), 300)}
    assert chosen not in left


def test_overlap_is_six_words_in_a_row_whatever_their_case() -> None:
    overlap = Overlap(["One two three four five six seven."])
    assert overlap.touches("so: TWO three, four five six seven")
    assert not overlap.touches("two three four five six")
    assert not overlap.touches("")


def test_a_loop_has_few_distinct_runs() -> None:
    assert is_loop([1, 2] * 20)
    assert not is_loop(range(40))
    assert not is_loop([1, 1, 1])


@pytest.mark.parametrize("text", ["no place", "{user} and {user}"])
def test_a_template_needs_one_place_for_the_user(text: str) -> None:
    with pytest.raises(InvalidArgument, match="exactly once"):
        PromptLayout.of(text)
