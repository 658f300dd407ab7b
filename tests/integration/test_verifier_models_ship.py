"""K/V of tiny random models on its way between engines: the bits are those computed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark.kv_blocks import ImportHead
from dspark.sampling import SamplingParams
from dspark.verifier.config import VerifierConfig
from dspark.verifier.engine import Engine
from dspark.verifier.engine_settings import EngineSettings
from dspark.verifier.model.loader import load_model
from harness.scripted_drafters import KnownText
from harness.tiny_models import ARCHITECTURES, VOCAB_SIZE, save_tiny_model
from harness.verifier_engine import Client, Driver

PROMPT = [5, 17, 3, 88, 41, 41, 2, 60, 9, 33, 71, 12, 5, 17, 3, 88, 41, 9, 30]
SAMPLINGS = (
    SamplingParams(temperature=0.0, max_tokens=30, ignore_eos=True),
    SamplingParams(temperature=0.9, seed=7, max_tokens=30, ignore_eos=True),
)


def engine_on(model: Path) -> Engine:
    config = VerifierConfig(str(model), kv_tokens=1024, block_size=8)
    loaded = load_model(config, lambda line: None)
    settings = EngineSettings.of(
        config, model_digest=loaded.model_digest, kernel_class=loaded.kernel_class
    )
    return Engine(loaded.runner, loaded.kv, settings)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def engines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Engine, Engine]:
    model = save_tiny_model(request.param, tmp_path_factory.mktemp(request.param))
    return engine_on(model), engine_on(model)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: f"T{s.temperature:g}")
def test_a_request_goes_on_elsewhere_with_its_blocks(
    engines: tuple[Engine, Engine], sampling: SamplingParams
) -> None:
    origin, heir = engines
    alone = Client("alone", PROMPT, sampling, use_prefix_cache=False)
    Driver(origin).run(alone)
    salt = f"{sampling.temperature}"
    drafter = KnownText(alone.tokens, VOCAB_SIZE).alternating
    moved = Client(f"moved at {salt}", PROMPT, sampling, drafter, cache_salt=salt)
    driver = Driver(origin)
    driver.admit(moved)
    while len(moved.committed) < 14:
        driver.work(moved)
    head = ImportHead(origin.exchange.type, tuple(moved.tokens), salt)
    blocks = origin.exchange.export(moved.ref(), 0)
    assert blocks is not None
    incoming = heir.exchange.begin_import(head)
    incoming.add(blocks)
    num_tokens = incoming.num_tokens
    incoming.close()
    heir.check()

    again = Client(f"again at {salt}", moved.tokens, sampling, use_prefix_cache=False)
    Driver(heir).admit(again)
    Driver(heir).work(again)
    computed = heir.exchange.export(again.ref(), 0)
    assert computed is not None
    assert computed.data[: len(blocks.data)] == blocks.data
    heir.sequences.release(again.ref())

    moved.epoch += 1
    Driver(heir).run(moved)
    assert moved.cached_tokens == num_tokens >= 24
    assert moved.committed == alone.committed
    origin.sequences.release(moved.ref())
    assert origin.pool.num_in_use == heir.pool.num_in_use == 0
