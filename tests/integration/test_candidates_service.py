"""The candidates service over a real socket, and as a process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc
import pytest
from grpc import aio

from dspark import rpc
from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.registry import build_sources
from dspark.candidates.server import CandidatesServer
from dspark.candidates.servicer import SERVICE_NAME
from dspark.candidates.sources.interface import CandidateSource
from dspark.proposal import (
    CandidatesUpdate,
    ProposeItem,
    ProposeOutcome,
    SequenceEnd,
    SequenceUpdate,
    Successors,
)
from dspark.v1 import candidates_service_pb2 as pb
from dspark.v1 import candidates_service_pb2_grpc as pb_grpc
from dspark.wire import proposal as wire
from harness.fault_redis import black_hole
from harness.scripted_drafters import oracle
from harness.scripted_sources import CrashingSource, ScriptedSource, SlowSource

VOCAB_SIZE = 100
# What is tested is what comes back, not when: a busy machine may take long.
PATIENT = CandidatesConfig(vocab_size=VOCAB_SIZE, propose_deadline_ms=30_000)
TEXT = (1, 2, 3, 4, 5, 6, 7, 1, 2, 3)


class Caller:
    """A caller in plain values."""

    def __init__(self, channel: aio.Channel) -> None:
        self.channel = channel
        self.stub = pb_grpc.CandidatesServiceStub(channel)

    async def propose(
        self, update: CandidatesUpdate, *items: ProposeItem, timeout: float | None = 60.0
    ) -> ProposeOutcome:
        request = pb.ProposeRequest(
            update=wire.update_to_proto(update), items=wire.items_to_proto(items)
        )
        return wire.outcome_from_proto(await self.stub.Propose(request, timeout=timeout))

    async def observe(self, update: CandidatesUpdate) -> Sequence[str]:
        request = pb.ObserveRequest(update=wire.update_to_proto(update))
        reply = await self.stub.Observe(request, timeout=60.0)
        return list(reply.unknown_request_ids)


@contextlib.asynccontextmanager
async def serving(
    folder: Path, config: CandidatesConfig = PATIENT, sources: list[CandidateSource] | None = None
) -> AsyncIterator[tuple[Caller, CandidatesServer]]:
    config = dataclasses.replace(config, listen=f"unix:{folder}/candidates.sock")
    proposer = Proposer(build_sources(config) if sources is None else sources, config)
    server = CandidatesServer(proposer, config)
    await server.start()
    try:
        async with rpc.channel(config.listen) as channel:
            yield Caller(channel), server
    finally:
        await server.stop()


def start(
    request_id: str = "a", token_ids: tuple[int, ...] = TEXT, prompt: int = 7
) -> CandidatesUpdate:
    return CandidatesUpdate((SequenceUpdate(request_id, 0, 0, token_ids, prompt),))


def item(request_id: str = "a", base_len: int = len(TEXT)) -> ProposeItem:
    return ProposeItem(request_id, 0, base_len, 7, 7)


async def test_a_life_of_a_request(tmp_path: Path) -> None:
    async with serving(tmp_path) as (caller, server):
        info = await caller.stub.GetCandidatesInfo(pb.GetCandidatesInfoRequest())
        assert list(info.sources) == ["recycle", "suffix", "retrieval"]
        assert info.top_k == 8
        assert await rpc.is_ready(caller.channel, SERVICE_NAME)

        outcome = await caller.propose(start(), item())
        tree = outcome.proposals[0].tree
        tree.validate(VOCAB_SIZE)
        assert tree.token_ids[:4] == (4, 5, 6, 7)
        assert tree.sources_of(0) == ["suffix"]

        more = CandidatesUpdate(
            (SequenceUpdate("a", 0, len(TEXT), (4,)),),
            (Successors((4,), (60, 61, 62, 63, 64, 65, 66, 67)),),
        )
        outcome = await caller.propose(more, item(base_len=len(TEXT) + 1))
        tree = outcome.proposals[0].tree
        by_token = dict(zip(tree.token_ids, range(len(tree)), strict=True))
        assert tree.sources_of(by_token[5]) == ["suffix"]
        assert tree.sources_of(by_token[60]) == ["recycle"]
        assert set(outcome.source_costs_ns) == {"recycle", "suffix", "retrieval"}

        assert await caller.observe(CandidatesUpdate(releases=(SequenceEnd("a", 0, True),))) == []
        outcome = await caller.propose(CandidatesUpdate(), item())
        assert outcome.unknown_request_ids == ("a",)
        assert len(server.proposer.sequences) == 0


async def test_finished_requests_serve_later_ones(tmp_path: Path) -> None:
    config = dataclasses.replace(PATIENT, sources=("retrieval",))
    async with serving(tmp_path, config) as (caller, _):
        await caller.observe(start("a", tuple(range(10, 30)), prompt=2))
        await caller.observe(CandidatesUpdate(releases=(SequenceEnd("a", 0, True),)))
        give_up_at = time.monotonic() + 30
        while True:
            later = CandidatesUpdate((SequenceUpdate("b", 0, 0, (1, 15, 16), 3),))
            outcome = await caller.propose(later, item("b", 3))
            if len(outcome.proposals[0].tree):
                break
            assert time.monotonic() < give_up_at
            await asyncio.sleep(0.01)
        assert outcome.proposals[0].tree.token_ids[0] == 17


async def test_unknown_and_stale_items_are_named_and_the_others_served(tmp_path: Path) -> None:
    async with serving(tmp_path) as (caller, _):
        outcome = await caller.propose(start(), item("x"), item(), item(base_len=3))
        assert [p.request_id for p in outcome.proposals] == ["a"]
        assert set(outcome.unknown_request_ids) == {"x", "a"}
        gap = CandidatesUpdate((SequenceUpdate("y", 0, 5, (1,)),))
        assert await caller.observe(gap) == ["y"]


async def test_broken_sources_cost_only_their_own_nodes(tmp_path: Path) -> None:
    def truth(token_ids: Sequence[int]) -> list[int]:
        return [50, 51, 52]

    sources: list[CandidateSource] = [
        CrashingSource(),
        SlowSource("slow", oracle, truth, VOCAB_SIZE, delay_s=3600.0),
        ScriptedSource("oracle", oracle, truth, VOCAB_SIZE),
    ]
    config = dataclasses.replace(PATIENT, propose_deadline_ms=50)
    async with serving(tmp_path, config, sources) as (caller, _):
        await caller.observe(start())
        for _ in range(8):
            outcome = await caller.propose(CandidatesUpdate(), item())
            assert outcome.proposals[0].tree.token_ids == (50, 51, 52)
            assert await rpc.is_ready(caller.channel, SERVICE_NAME)


async def test_a_callers_deadline_ends_the_wait_for_sources(tmp_path: Path) -> None:
    def truth(token_ids: Sequence[int]) -> list[int]:
        return [50]

    sources: list[CandidateSource] = [
        SlowSource("slow", oracle, truth, VOCAB_SIZE, delay_s=3600.0),
        ScriptedSource("oracle", oracle, truth, VOCAB_SIZE),
    ]
    config = dataclasses.replace(PATIENT, propose_deadline_ms=3_600_000)
    async with serving(tmp_path, config, sources) as (caller, _):
        await caller.observe(start())
        with contextlib.suppress(aio.AioRpcError):
            await caller.propose(CandidatesUpdate(), item(), timeout=0.5)
        outcome = await caller.propose(
            CandidatesUpdate(), dataclasses.replace(item(), sources=("oracle",))
        )
        assert outcome.proposals[0].tree.token_ids == (50,)


async def test_a_caller_without_a_deadline_is_served(tmp_path: Path) -> None:
    async with serving(tmp_path) as (caller, _):
        outcome = await caller.propose(start(), item(), timeout=None)
        assert outcome.proposals[0].tree.token_ids[:3] == (4, 5, 6)


async def test_a_dead_store_is_no_reason_not_to_serve(tmp_path: Path) -> None:
    async with black_hole(tmp_path / "redis.sock") as url:
        config = dataclasses.replace(PATIENT, redis_url=url)
        async with serving(tmp_path, config) as (caller, _):
            assert await rpc.is_ready(caller.channel, SERVICE_NAME)
            outcome = await caller.propose(start(), item())
            assert outcome.proposals[0].tree.token_ids[:3] == (4, 5, 6)


async def test_idle_sequences_are_forgotten_without_further_calls(tmp_path: Path) -> None:
    config = dataclasses.replace(PATIENT, lease_s=0.05)
    async with serving(tmp_path, config) as (caller, server):
        await caller.observe(start())
        give_up_at = time.monotonic() + 30
        while len(server.proposer.sequences):
            assert time.monotonic() < give_up_at
            await asyncio.sleep(0.01)


async def test_a_thousand_requests_leave_nothing_behind(tmp_path: Path) -> None:
    async with serving(tmp_path) as (caller, server):
        for batch in range(20):
            names = [f"{batch}-{number}" for number in range(50)]
            updates = tuple(SequenceUpdate(name, 0, 0, TEXT, 7) for name in names)
            await caller.propose(CandidatesUpdate(updates), *[item(name) for name in names])
            ends = tuple(SequenceEnd(name, 0, number % 3 == 0) for number, name in enumerate(names))
            await caller.observe(CandidatesUpdate(releases=ends))
        assert len(server.proposer.sequences) == 0
        suffix = server.proposer.runners[1].source
        assert vars(suffix)["_indexes"] == {}


async def test_the_process_serves_and_ends_on_sigterm(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/process.sock"
    command = [
        sys.executable,
        "-m",
        "dspark.candidates",
        "--listen",
        address,
        "--sources",
        "suffix",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        async with rpc.channel(address) as channel:
            give_up_at = time.monotonic() + 60
            while not await rpc.is_ready(channel, SERVICE_NAME):
                assert time.monotonic() < give_up_at
                assert process.poll() is None
                await asyncio.sleep(0.05)
            outcome = await Caller(channel).propose(start(), item())
            assert outcome.proposals[0].tree.token_ids[:2] == (4, 5)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 30) == 0
            assert not await rpc.is_ready(channel, SERVICE_NAME)
    finally:
        process.kill()
        process.communicate()


async def test_a_message_that_is_not_one_is_an_error_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as (caller, _):
        call = caller.channel.unary_unary(f"/{SERVICE_NAME}/Propose")
        with pytest.raises(aio.AioRpcError) as raised:
            await call(b"\xff\xff\xff")
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        outcome = await caller.propose(start(), item())
        assert len(outcome.proposals) == 1
