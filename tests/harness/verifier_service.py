"""A verifier over gRPC whose model is the fake one."""

from __future__ import annotations

from dspark.step import VerifyCost
from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel, Progress
from dspark.verifier.server import Load
from harness.fake_model import FakeKvStore, FakeModel, FakeRunner


def fake_loader(
    model: FakeModel | None = None,
    *,
    max_model_len: int = 512,
    eos_token_ids: frozenset[int] = frozenset(),
) -> Load:
    """A ``load`` for ``dspark.verifier.server.serving`` that needs no weights."""

    def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
        progress("loading the fake model")
        kv = FakeKvStore(config.num_blocks * config.block_size, config.block_size)
        runner = FakeRunner(
            kv, model or FakeModel(), max_model_len=max_model_len, eos_token_ids=eos_token_ids
        )
        return LoadedModel(
            runner=runner,
            kv=kv,
            model_digest="fake",
            kernel_class="fake",
            exactness="strict",
            dtype="float32",
            device="cpu",
            max_step_rows=64,
            verify_costs=(VerifyCost(1, 1.0), VerifyCost(16, 2.0), VerifyCost(64, 6.0)),
        )

    return load


def fake_config(listen: str = "127.0.0.1:0", **settings: object) -> VerifierConfig:
    """A small pool; ``settings`` override fields of VerifierConfig."""
    values: dict[str, object] = {"kv_tokens": 1024, "block_size": 4, **settings}
    return VerifierConfig(model="fake", listen=listen, **values)  # type: ignore[arg-type]
