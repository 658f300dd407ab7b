"""Features are those of a plain pass over the same tokens, however these were computed."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dspark.errors import InvalidArgument
from dspark.features import Features
from dspark.sampling import SamplingParams
from dspark.step import StepOutcome
from dspark.token_tree import chain
from dspark.verifier.engine import Engine
from harness.fake_model import FakeModel, fake_feature
from harness.scripted_drafters import NAMES, KnownText
from harness.verifier_engine import Client, Driver, fake_engine, no_tree, plain_decode

MODEL = FakeModel()
HIDDEN_SIZE = 4


def plain_features(tokens: list[int], first: int, layers: tuple[int, ...]) -> Features:
    """Those of ``tokens`` from ``first`` on, by a plain prefill."""
    seen = MODEL.digests_of(tokens)[first:].astype(np.int64)
    values = np.stack([fake_feature(seen, layer) for layer in layers], axis=1)
    spread: NDArray[np.float32] = np.repeat(values[:, :, None], HIDDEN_SIZE, axis=2)
    data = (np.ascontiguousarray(spread).view(np.uint32) >> 16).astype("<u2").tobytes()
    return Features(first, (len(seen), len(layers), HIDDEN_SIZE), data)


class FeatureDriver(Driver):
    """Asks for features of the last ``num_features`` tokens, and checks what comes."""

    def __init__(
        self, engine: Engine, num_features: int = 2, layers: tuple[int, ...] = (0, 2)
    ) -> None:
        super().__init__(engine)
        self.num_features = num_features
        self.layers = layers

    def work(self, *clients: Client, top_k: int = 0) -> StepOutcome:
        computed = [self._num_computed(client) for client in clients]
        entries = (replace(client.work(), num_features=self.num_features) for client in clients)
        outcome = self.step(work=tuple(entries), feature_layers=self.layers, top_k=top_k)
        for client, result, start in zip(clients, outcome.results, computed, strict=True):
            client.apply(result)
            end = result.num_computed_tokens
            first = max(start, end - self.num_features)
            assert result.features == plain_features(client.tokens[:end], first, self.layers)
        return outcome

    def _num_computed(self, client: Client) -> int:
        sequence = self.engine.sequences.get(client.request_id)
        assert sequence is not None
        return sequence.num_computed


def client(name: str, seed: int, size: int, max_tokens: int, drafter: str = "empty") -> Client:
    generator = random.Random(seed)
    prompt = [generator.randrange(MODEL.vocab_size) for _ in range(size)]
    sampling = SamplingParams(temperature=0.0, seed=seed, max_tokens=max_tokens)
    text = prompt + plain_decode(MODEL, prompt, sampling)[0]
    return Client(name, prompt, sampling, KnownText(text, MODEL.vocab_size).all()[drafter])


def test_a_prompt_in_chunks_and_then_token_by_token() -> None:
    driver = FeatureDriver(fake_engine(model=MODEL)[0], num_features=3)
    request = replace(client("a", 1, 10, 6), max_pending_rows=4)
    driver.run(request)
    assert driver.step_id == 1 + 3 + 5


@pytest.mark.parametrize("drafter", ["oracle", "branchy", "duplicates", "adversary"])
def test_accepted_nodes_count_wherever_they_stand_in_the_tree(drafter: str) -> None:
    driver = FeatureDriver(fake_engine(model=MODEL)[0], num_features=3)
    request = client("a", 2, 5, 20, drafter)
    driver.run(request)
    assert bool(request.num_accepted) == (drafter != "adversary")


def test_tokens_from_the_prefix_cache_have_none() -> None:
    driver = FeatureDriver(fake_engine(model=MODEL)[0], num_features=8)
    first, second = client("a", 3, 13, 4), client("b", 3, 13, 4)
    driver.run(first)
    driver.admit(second)
    assert second.cached_tokens == 12
    (result,) = driver.work(second).results
    assert result.features is not None and result.features.shape[0] == 1
    driver.finish(second)


def test_only_who_asks_gets_them() -> None:
    engine, runner = fake_engine(model=MODEL)
    driver = Driver(engine)
    asks, silent = client("a", 4, 5, 9), client("b", 5, 5, 9)
    driver.admit(asks, silent)
    work = (silent.work(), replace(asks.work(), num_features=1))
    without, given = driver.step(work=work, feature_layers=(1,)).results
    assert without.features is None
    assert given.features == plain_features(asks.tokens, 4, (1,))
    buffer = runner.batches[-1].features
    assert buffer is not None and buffer.rows.tolist() == [9]
    for result, one in ((without, silent), (given, asks)):
        one.apply(result)
    driver.work(asks, silent)
    assert runner.batches[-1].features is None


@pytest.mark.parametrize("layers", [(3,), (1, 0), (0, 0)])
def test_layers_that_are_not_exported_or_ascending_are_refused(layers: tuple[int, ...]) -> None:
    driver = Driver(fake_engine(model=MODEL)[0])
    with pytest.raises(InvalidArgument, match="feature_layers"):
        driver.step(feature_layers=layers)


def test_a_row_that_was_computed_ahead_is_computed_again_for_its_features() -> None:
    engine, runner = fake_engine(model=MODEL, is_row_invariant=True)
    driver = FeatureDriver(engine)
    first, second = client("a", 6, 5, 9), client("b", 7, 5, 9)
    driver.admit(first, second)
    for one, result in zip(
        (first, second),
        driver.step(work=(first.work(), second.work()), compute_ahead=True).results,
        strict=True,
    ):
        one.apply(result)
    engine.compute_ahead()
    work = (first.work(), replace(second.work(), num_features=2))
    outcome = driver.step(work=work, feature_layers=driver.layers, compute_ahead=True)
    assert (outcome.num_rows, outcome.num_ahead_rows) == (2, 1)
    assert outcome.results[1].features == plain_features(second.tokens, 5, driver.layers)
    # What wants them now is not computed ahead again.
    num_passes = len(runner.batches)
    engine.compute_ahead()
    assert [batch.num_rows for batch in runner.batches[num_passes:]] == [1]


@st.composite
def scenarios(draw: st.DrawFn) -> list[Client]:
    return [
        replace(
            client(
                f"r{index}",
                draw(st.integers(0, 1)),
                draw(st.integers(1, 14)),
                draw(st.integers(1, 16)),
                draw(st.sampled_from(NAMES)),
            ),
            max_pending_rows=draw(st.sampled_from([1, 3, 100])),
            use_prefix_cache=draw(st.booleans()),
        )
        for index in range(draw(st.integers(1, 3)))
    ]


@given(scenarios(), st.integers(1, 6), st.sampled_from([(0,), (1, 2), (0, 1, 2)]))
def test_whatever_is_asked_tokens_and_features_are_plain(
    requests: list[Client], num_features: int, layers: tuple[int, ...]
) -> None:
    driver = FeatureDriver(fake_engine(model=MODEL, num_blocks=96)[0], num_features, layers)
    driver.run(*requests)
    for request in requests:
        wanted = plain_decode(MODEL, request.prompt, request.sampling)
        assert (request.committed, request.finish_reason) == wanted


def test_a_tree_with_features_is_verified_as_without() -> None:
    driver = FeatureDriver(fake_engine(model=MODEL)[0], num_features=1)
    request = client("a", 8, 5, 9)
    driver.admit(request)
    request.drafter = lambda tokens: chain([1, 2], "x")
    driver.work(request)
    request.drafter = no_tree
    driver.finish(request)
    assert request.committed == plain_decode(MODEL, request.prompt, request.sampling)[0]
