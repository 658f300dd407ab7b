"""A verifier process whose model is a hash of what its rows see: real but for the weights.

``python -m harness.chaos.hash_verifier`` takes the flags of ``python -m dspark.verifier``.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import deque

import uvloop

from dspark.config import parse
from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel, Progress
from dspark.verifier.server import serve
from harness.byte_tokenizer import byte_tokenizer
from harness.fake_model import FakeModel
from harness.verifier_service import fake_loader

MAX_MODEL_LEN = 512


async def run(config: VerifierConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    vocab_size = byte_tokenizer().get_vocab_size()
    load_fake = fake_loader(
        FakeModel(vocab_size, spread=12.0),
        max_model_len=MAX_MODEL_LEN,
        eos_token_ids=frozenset({vocab_size - 2}),
    )

    def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
        loaded = load_fake(config, progress)
        # It keeps every batch for tests that look at them; here that would be a leak.
        loaded.runner.batches = deque(maxlen=1)  # type: ignore[attr-defined]
        return loaded

    await serve(config, load, logging.info, stop)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    uvloop.run(run(parse(VerifierConfig, "Serve a hash as a model.")))


if __name__ == "__main__":
    main()
