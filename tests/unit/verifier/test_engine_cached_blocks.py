"""The prefix cache holds what its keys say and nothing else, whatever fails on the way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pytest

from dspark.sampling import FinishReason, SamplingParams
from dspark.step import WorkStatus
from dspark.verifier.engine import Engine
from dspark.verifier.forward_batch import ForwardBatch
from harness.fake_model import FakeModel, visible_slots
from harness.scripted_drafters import NAMES, KnownText
from harness.verifier_engine import CheckedRunner, Client, Driver, fake_engine, plain_decode

MODEL = FakeModel()
GARBAGE = 0xDEAD
SALTS = ("", "x")


class DeviceLost(Exception):
    """A pass failed."""


class Faults:
    """Makes an engine's next pass or move fail, or a pass write rows that are no numbers."""

    def __init__(self, engine: Engine, runner: CheckedRunner) -> None:
        self.next = ""
        self._runner = runner
        self._forward, self._move = runner.forward, runner.kv.move
        runner.forward = self.forward  # type: ignore[method-assign]
        runner.kv.move = self.move  # type: ignore[method-assign]

    def take(self, *kinds: str) -> str:
        fault, self.next = (self.next, "") if self.next in kinds else ("", self.next)
        return fault

    def forward(self, batch: ForwardBatch) -> np.ndarray:
        match self.take("before", "midway", "sick"):
            case "before":
                raise DeviceLost
            case "midway":
                # Some rows are written, and what they hold is not to be relied on.
                self._runner.kv.digests[batch.slot_mapping[::2]] = GARBAGE
                raise DeviceLost
            case "sick":
                return self._spread(batch, self._forward(batch), set(batch.slot_mapping.tolist()))
        return self._spread(batch, self._forward(batch), set())

    def _spread(self, batch: ForwardBatch, logits: np.ndarray, sick: set[int]) -> np.ndarray:
        """What is no number makes all that attends to it none, and so the logits."""
        digests = self._runner.kv.digests
        for row, slot in enumerate(batch.slot_mapping.tolist()):
            if slot in sick or GARBAGE in digests[visible_slots(batch, row)[:-1]]:
                digests[slot] = GARBAGE
        logits[digests[batch.slot_mapping[batch.logits_rows]] == GARBAGE] = np.nan
        return logits

    def move(self, sources: np.ndarray, destinations: np.ndarray) -> None:
        if self.take("move"):
            raise DeviceLost
        self._move(sources, destinations)


class Texts:
    """What plain decoding makes of each prompt: all that may ever be cached."""

    def __init__(self, engine: Engine, runner: CheckedRunner) -> None:
        self._engine, self._runner = engine, runner
        self._wanted: dict[bytes, list[int]] = {}

    def add(self, salt: str, token_ids: Sequence[int]) -> None:
        cache, size = self._engine.prefix_cache, self._engine.block_size
        digests = MODEL.digests_of(token_ids)
        chain = cache.root(salt)
        # The last token is never computed.
        for end in range(size, len(token_ids), size):
            chain = cache.extend(chain, np.array(token_ids[end - size : end]))
            self._wanted[chain] = digests[end - size : end].tolist()

    def check(self) -> None:
        size = self._engine.block_size
        for key, block in self._engine.prefix_cache._block_by_hash.items():
            held = self._runner.kv.digests[block * size : (block + 1) * size].tolist()
            assert key in self._wanted, "tokens are cached that were never committed"
            # Rows that are no numbers are found out by the first logits that come of them.
            is_sick = GARBAGE in held
            assert is_sick or held == self._wanted[key], f"block {block} holds something else"


def client_of(chance: random.Random, index: int) -> tuple[Client, list[int]]:
    """Requests that share beginnings, and the whole text of each."""
    shared = [7, 7, 7, 2, 9, 1, 1, 4, 12, 5, 6, 14, 0][: chance.randint(1, 13)]
    prompt = shared + [chance.randrange(MODEL.vocab_size) for _ in range(chance.randint(0, 3))]
    params = SamplingParams(chance.choice([0.0, 1.0]), seed=chance.randrange(3), max_tokens=12)
    text = prompt + plain_decode(MODEL, prompt, params)[0]
    client = Client(
        f"r{index}",
        prompt,
        params,
        getattr(KnownText(text, MODEL.vocab_size), chance.choice(NAMES)),
        max_pending_rows=chance.choice([2, 5, 100]),
        cache_salt=chance.choice(SALTS),
        use_prefix_cache=chance.random() < 0.8,
    )
    return client, text


class Storm:
    """Clients that come at any time, are preempted, and are admitted anew when they got lost."""

    def __init__(self, chance: random.Random, clients: list[Client], driver: Driver) -> None:
        self.chance = chance
        self.driver = driver
        self.waiting, self.running = list(clients), list[Client]()

    def step(self) -> None:
        chance = self.chance
        new = [self.waiting.pop() for _ in range(min(len(self.waiting), chance.randint(0, 2)))]
        releases = []
        for client in self.running:
            if chance.random() < 0.08:
                releases.append(client.ref())
                client.epoch += 1
                new.append(client)
        self.running += [client for client in new if client not in self.running]
        chosen = [client for client in self.running if chance.random() < 0.8]
        outcome = self.driver.step(
            releases=tuple(releases),
            admissions=tuple(client.admission() for client in new),
            work=tuple(client.work() for client in chosen),
            compute_ahead=chance.random() < 0.5,
        )
        for client, result in zip(chosen, outcome.results, strict=True):
            if result.status is WorkStatus.DONE:
                client.apply(result)
        self.driver.engine.compute_ahead()

    def recover(self) -> None:
        """After a step that failed: whom the engine does not have, or not so, comes anew."""
        for client in self.running:
            client.epoch += 1
        self.driver.step(admissions=tuple(client.admission() for client in self.running))

    def settle(self) -> None:
        """Whoever was ended by bad rows begins anew, as another request of the same text."""
        for client in self.running:
            if client.finish_reason is FinishReason.ERROR:
                client.finish_reason, client.epoch = None, client.epoch + 1
                self.waiting.append(client)
        running = [client for client in self.running if client not in self.waiting]
        self.running = [client for client in running if client.finish_reason is None]


@pytest.mark.parametrize("seed", range(60))
def test_every_cached_block_holds_what_its_key_says(seed: int) -> None:
    chance = random.Random(seed)
    block_size = chance.choice([1, 4])
    engine, runner = fake_engine(
        num_blocks=400 // block_size,
        block_size=block_size,
        num_evictable_blocks=chance.choice([3, 40]),
    )
    faults, texts = Faults(engine, runner), Texts(engine, runner)
    made = [client_of(chance, index) for index in range(chance.randint(1, 6))]
    for client, text in made:
        texts.add(client.cache_salt, text)
    storm = Storm(chance, [client for client, _ in made], Driver(engine))
    num_steps = 0
    while storm.waiting or storm.running:
        num_steps += 1
        assert num_steps < 1000, "what went bad never got well"
        if chance.random() < 0.2:
            faults.next = chance.choice(["before", "midway", "sick", "move"])
        try:
            with suppress(DeviceLost):
                storm.step()
                continue
            engine.check()
            texts.check()
            faults.next = ""
            storm.recover()
        finally:
            texts.check()
            storm.settle()
    for client, text in made:
        assert client.tokens == text
    assert engine.pool.num_in_use == 0


@pytest.mark.parametrize("max_rows", [3, 100], ids=["chunks", "whole"])
def test_a_prompt_whose_rows_were_no_numbers_is_computed_anew(max_rows: int) -> None:
    """One bad pass must not make every later request of the same prompt fail."""
    engine, runner = fake_engine()
    faults, driver = Faults(engine, runner), Driver(engine)
    prompt, params = list(range(1, 15)), SamplingParams(0.0, max_tokens=4)
    sick = Client("sick", prompt, params, max_pending_rows=max_rows)
    driver.admit(sick)
    while sick.finish_reason is None:
        faults.next = "sick"
        driver.work(sick)
    assert sick.finish_reason is FinishReason.ERROR
    for name in ("first", "second"):
        well = Client(name, prompt, params)
        driver.run(well)
        assert well.cached_tokens == (12 if name == "second" else 0)
        assert well.committed == plain_decode(MODEL, prompt, params)[0]
