"""An engine on the fake model, driven the way a scheduler drives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dspark.logprobs import TokenLogprobs
from dspark.sampling import FinishReason, SamplingParams
from dspark.step import (
    SequenceAdmission,
    SequenceRef,
    SequenceWork,
    StepOutcome,
    StepPlan,
    WorkResult,
    WorkStatus,
)
from dspark.token_tree import TokenTree
from dspark.verifier.engine import Engine
from dspark.verifier.engine_settings import EngineSettings
from dspark.verifier.forward_batch import IntArray
from dspark.verifier.sampling.sampler import Sampler
from dspark.verifier.structure.compiler import Structures
from harness.fake_model import FakeKvStore, FakeModel, FakeRunner
from harness.scripted_drafters import Drafter

GREEDY = SamplingParams(temperature=0.0, max_tokens=1000)


def no_tree(token_ids: list[int]) -> TokenTree:
    return TokenTree()


class FakeClock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class CheckedRunner(FakeRunner):
    """Also asserts that no row writes to a block that others own or may come to read."""

    engine: Engine | None = None

    def forward(self, batch):  # type: ignore[no-untyped-def]
        assert self.engine is not None
        _check_writable(self.engine, batch.slot_mapping)
        return super().forward(batch)


def _check_writable(engine: Engine, slots: IntArray) -> None:
    size = engine.block_size
    for block in {int(slot) // size for slot in slots}:
        assert engine.pool.is_writable(block), f"block {block} is shared or retained"


def fake_engine(
    *,
    num_blocks: int = 64,
    block_size: int = 4,
    num_evictable_blocks: int = 16,
    model: FakeModel | None = None,
    max_model_len: int = 512,
    eos_token_ids: frozenset[int] = frozenset(),
    clock: Callable[[], float] | None = None,
    structures: Structures | None = None,
    **settings: object,
) -> tuple[Engine, CheckedRunner]:
    """An engine whose every forward pass is checked, and its runner."""
    kv = FakeKvStore(num_blocks * block_size, block_size)
    runner = CheckedRunner(
        kv, model or FakeModel(), max_model_len=max_model_len, eos_token_ids=eos_token_ids
    )
    engine = Engine(
        runner,
        kv,
        EngineSettings(
            num_blocks=num_blocks,
            block_size=block_size,
            num_evictable_blocks=num_evictable_blocks,
            **settings,  # type: ignore[arg-type]
        ),
        **({"clock": clock} if clock else {}),
        structures=structures,
    )
    runner.engine = engine
    return engine, runner


def plain_decode(
    model: FakeModel,
    prompt: Sequence[int],
    sampling: SamplingParams,
    *,
    eos_token_ids: frozenset[int] = frozenset(),
    max_model_len: int = 512,
) -> tuple[list[int], FinishReason]:
    """The oracle: one token at a time, from the whole text so far."""
    tokens, sampler = list(prompt), Sampler(sampling)
    stops = sampling.stop_token_ids | (frozenset() if sampling.ignore_eos else eos_token_ids)
    while True:
        tokens.append(sampler.draw(model.next_logits(tokens), len(tokens), []))
        if tokens[-1] in stops:
            return tokens[len(prompt) :], FinishReason.STOP
        if len(tokens) - len(prompt) >= sampling.max_tokens or len(tokens) >= max_model_len:
            return tokens[len(prompt) :], FinishReason.LENGTH


@dataclass
class Client:
    """One request as a scheduler sees it."""

    request_id: str
    prompt: list[int]
    sampling: SamplingParams = GREEDY
    drafter: Drafter = no_tree
    max_pending_rows: int = 1000
    epoch: int = 0
    cache_salt: str = ""
    use_prefix_cache: bool = True
    committed: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    num_accepted: int = 0
    max_forced_nodes: int = 0
    num_accepted_forced: int = 0
    cached_tokens: int = 0
    finish_reason: FinishReason | None = None

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.committed

    def admission(self) -> SequenceAdmission:
        return SequenceAdmission(
            self.request_id,
            self.epoch,
            tuple(self.tokens),
            len(self.prompt),
            self.sampling,
            self.cache_salt,
            self.use_prefix_cache,
        )

    def work(self) -> SequenceWork:
        tree = self.drafter(self.tokens)
        return SequenceWork(
            self.request_id,
            self.epoch,
            len(self.tokens),
            self.max_pending_rows,
            tree,
            max_forced_nodes=self.max_forced_nodes,
        )

    def ref(self) -> SequenceRef:
        return SequenceRef(self.request_id, self.epoch)

    def apply(self, result: WorkResult) -> None:
        assert result.status is WorkStatus.DONE, result
        if result.committed_token_ids and result.finish_reason is not FinishReason.ERROR:
            num_accepted = len(result.accepted_nodes) + result.num_accepted_forced
            assert len(result.committed_token_ids) == num_accepted + 1
        self.committed += result.committed_token_ids
        self.logprobs += result.logprobs
        self.prompt_logprobs += result.prompt_logprobs
        self.num_accepted += len(result.accepted_nodes)
        self.num_accepted_forced += result.num_accepted_forced
        self.finish_reason = result.finish_reason


class Driver:
    """Runs clients on an engine, checking the block accounting after every step."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.step_id = 0

    def step(self, **plan: object) -> StepOutcome:
        self.step_id += 1
        outcome = self.engine.step(StepPlan("scheduler", self.step_id, **plan))  # type: ignore[arg-type]
        self.engine.check()
        assert outcome.num_free_blocks == self.engine.pool.num_available
        return outcome

    def admit(self, *clients: Client) -> StepOutcome:
        outcome = self.step(admissions=tuple(client.admission() for client in clients))
        for client in clients:
            client.cached_tokens = outcome.cached_tokens[client.request_id]
        return outcome

    def work(self, *clients: Client, top_k: int = 0) -> StepOutcome:
        outcome = self.step(work=tuple(client.work() for client in clients), top_k=top_k)
        for client, result in zip(clients, outcome.results, strict=True):
            client.apply(result)
        return outcome

    def finish(self, *clients: Client) -> None:
        """Step all clients until each has finished."""
        while running := [client for client in clients if client.finish_reason is None]:
            self.work(*running)

    def run(self, *clients: Client) -> None:
        self.admit(*clients)
        self.finish(*clients)
