"""The engine on tiny random models: neither candidates nor neighbours nor prefix hits matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark.sampling import SamplingParams
from dspark.verifier.config import VerifierConfig
from dspark.verifier.engine import Engine
from dspark.verifier.engine_settings import EngineSettings
from dspark.verifier.model.loader import load_model
from harness.scripted_drafters import NAMES, KnownText
from harness.tiny_models import ARCHITECTURES, VOCAB_SIZE, save_tiny_model
from harness.verifier_engine import Client, Driver

PROMPT = [5, 17, 3, 88, 41, 41, 2, 60, 9, 33, 71, 12, 5, 17, 3, 88, 41, 9, 30]
SAMPLINGS = (
    SamplingParams(temperature=0.0, max_tokens=20),
    SamplingParams(temperature=0.7, top_p=0.9, seed=11, max_tokens=20),
    SamplingParams(temperature=1.3, seed=12, max_tokens=20, ignore_eos=True),
)


def engine_on(model: Path) -> Engine:
    config = VerifierConfig(str(model), kv_tokens=2048, block_size=8)
    loaded = load_model(config, lambda line: None)
    assert loaded.exactness == "strict"
    settings = EngineSettings.of(
        config, model_digest=loaded.model_digest, kernel_class=loaded.kernel_class
    )
    return Engine(loaded.runner, loaded.kv, settings)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    name = request.param
    return engine_on(save_tiny_model(name, tmp_path_factory.mktemp(name)))


def plain(driver: Driver, sampling: SamplingParams) -> Client:
    """The request alone, without candidates, cache or chunks."""
    client = Client("plain", PROMPT, sampling, use_prefix_cache=False)
    driver.run(client)
    return client


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: f"T{s.temperature:g}")
def test_every_drafter_in_one_batch_gives_the_plain_tokens(
    engine: Engine, sampling: SamplingParams
) -> None:
    driver = Driver(engine)
    alone = plain(driver, sampling)
    drafters = KnownText(alone.tokens, VOCAB_SIZE).all()
    for is_warm in (False, True):
        clients = [
            Client(name, PROMPT, sampling, drafters[name], max_pending_rows=3 + 4 * index)
            for index, name in enumerate(NAMES)
        ]
        driver.run(*clients)
        for client in clients:
            assert client.committed == alone.committed, client.request_id
            assert client.finish_reason == alone.finish_reason
            assert client.cached_tokens == 16 or not is_warm
        if len(alone.committed) == sampling.max_tokens:
            assert max(client.num_accepted for client in clients) >= 15
    assert engine.pool.num_in_use == 0


def test_a_preempted_request_goes_on_with_the_same_tokens(engine: Engine) -> None:
    driver = Driver(engine)
    sampling = SAMPLINGS[2]
    alone = plain(driver, sampling)
    client = Client("a", PROMPT, sampling, KnownText(alone.tokens, VOCAB_SIZE).branchy)
    driver.admit(client)
    while client.finish_reason is None:
        driver.work(client)
        if client.finish_reason is None:
            driver.step(releases=(client.ref(),))
            client.epoch += 1
            driver.admit(client)
    assert client.committed == alone.committed
