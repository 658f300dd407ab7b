"""The engine on a device: drafters, neighbours, chunks and prefix hits change no token."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from dspark.sampling import SamplingParams
from dspark.verifier.config import VerifierConfig
from dspark.verifier.engine import Engine
from dspark.verifier.engine_settings import EngineSettings
from dspark.verifier.interfaces import LoadedModel
from dspark.verifier.model.loader import load_model
from harness.scripted_drafters import NAMES, KnownText
from harness.tiny_models import ARCHITECTURES, VOCAB_SIZE, save_tiny_model
from harness.verifier_engine import Client, Driver

pytestmark = pytest.mark.gpu
PROMPT = [5, 17, 3, 88, 41, 41, 2, 60, 9, 33, 71, 12, 5, 17, 3, 88, 41, 9, 30]
SAMPLINGS = (
    SamplingParams(temperature=0.0, max_tokens=24),
    SamplingParams(temperature=0.8, top_p=0.9, seed=3, max_tokens=24, ignore_eos=True),
)
BACKENDS = [
    "torch",
    "flex",
    pytest.param(
        "flash_attn",
        marks=pytest.mark.skipif(find_spec("flash_attn") is None, reason="no flash-attn here"),
    ),
]


def load(
    folder: Path, architecture: str, device: str, dtype: str, attention: str = "torch"
) -> tuple[LoadedModel, Engine]:
    config = VerifierConfig(
        str(save_tiny_model(architecture, folder)),
        kv_tokens=8192,
        exactness="fast" if (device, attention) == ("cpu", "flex") else "strict",
        block_size=256 if attention == "flash_attn" else 16,
        device=device,
        kernels="torch",
        attention=attention,
        weight_dtype=dtype,
    )
    loaded = load_model(config, lambda line: None)
    settings = EngineSettings.of(
        config, model_digest=loaded.model_digest, kernel_class=loaded.kernel_class
    )
    return loaded, Engine(loaded.runner, loaded.kv, settings)


@pytest.mark.parametrize("attention", BACKENDS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_tokens_are_those_of_plain_decoding(
    tmp_path: Path, device: str, architecture: str, attention: str
) -> None:
    if (device, attention) == ("cpu", "flex") and architecture != "llama":
        pytest.skip("unfused attention on the CPU is slow")
    loaded, engine = load(tmp_path, architecture, device, "bf16", attention)
    assert loaded.device == device
    if (device, attention) != ("cpu", "flex"):
        assert loaded.exactness == "strict"
    driver = Driver(engine)
    for sampling in SAMPLINGS:
        alone = Client("plain", PROMPT, sampling, use_prefix_cache=False)
        driver.run(alone)
        drafters = KnownText(alone.tokens, VOCAB_SIZE).all()
        clients = [
            Client(name, PROMPT, sampling, drafters[name], max_pending_rows=3 + 4 * index)
            for index, name in enumerate(NAMES)
        ]
        driver.run(*clients)
        assert {client.request_id: client.tokens for client in clients} == dict.fromkeys(
            NAMES, alone.tokens
        )


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
def test_every_weight_dtype_starts_strict(tmp_path: Path, device: str, dtype: str) -> None:
    loaded, _ = load(tmp_path, "llama", device, dtype)
    assert (loaded.exactness, loaded.dtype) == ("strict", dtype)
