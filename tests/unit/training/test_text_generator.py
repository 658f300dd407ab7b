from __future__ import annotations

import numpy as np
import pytest

from dspark.sampling import SamplingParams
from dspark.training.text_generator import TextGenerator, WritingJob
from harness.fake_model import FakeModel, fake_feature
from harness.verifier_engine import fake_engine, plain_decode

MODEL = FakeModel()
EOS = frozenset({3})


def job(seed: int, **options: object) -> WritingJob:
    prompt = tuple((seed * 7 + place) % MODEL.vocab_size for place in range(1 + seed % 5))
    sampling = SamplingParams(temperature=0.7 * (seed % 2), seed=seed, max_tokens=3 + seed)
    return WritingJob(prompt, sampling, tag=seed, **options)


def expected(each: WritingJob) -> tuple[int, ...]:
    return tuple(plain_decode(MODEL, list(each.prompt_ids), each.sampling, eos_token_ids=EOS)[0])


@pytest.mark.parametrize("side_by_side", [1, 3, 20])
def test_every_text_is_what_the_model_writes_alone(side_by_side: int) -> None:
    engine, _ = fake_engine(model=MODEL, num_blocks=512, eos_token_ids=EOS)
    jobs = [job(seed) for seed in range(9)]
    texts = list(TextGenerator(engine, side_by_side).write(iter(jobs)))
    assert sorted(text.job.tag for text in texts) == list(range(9))
    for text in texts:
        assert text.token_ids == expected(text.job)
        assert text.ended == (text.token_ids[-1] in EOS)
        assert text.features.size == 0
    engine.check()


def test_hidden_states_are_those_of_each_token_but_the_last() -> None:
    engine, _ = fake_engine(model=MODEL, num_blocks=512, eos_token_ids=EOS)
    jobs = [job(seed, wants_features=seed != 2) for seed in range(5)]
    for text in TextGenerator(engine, 2, layers=(0, 2)).write(iter(jobs)):
        tokens = [*text.job.prompt_ids, *text.token_ids]
        if text.job.tag == 2:
            assert text.features.size == 0
            continue
        digests = MODEL.digests_of(tokens[:-1])
        values = (text.features.astype(np.uint32) << 16).view(np.float32)
        assert values.shape == (len(tokens) - 1, 2, 4)
        for index, layer in enumerate((0, 2)):
            wanted = fake_feature(digests, layer)
            assert (values[:, index] == wanted[:, None]).all()


def test_jobs_are_drawn_only_as_places_free_up() -> None:
    drawn: list[int] = []

    def jobs():
        for seed in range(6):
            drawn.append(seed)
            yield job(seed)

    engine, _ = fake_engine(model=MODEL, eos_token_ids=EOS)
    texts = TextGenerator(engine, 2).write(jobs())
    next(texts)
    assert len(drawn) <= 4
