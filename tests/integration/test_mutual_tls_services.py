"""Every arrow between the services with mTLS: the right caller gets through, no other does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc import aio

from dspark import rpc
from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.registry import build_sources
from dspark.candidates.server import CandidatesServer
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.server import SchedulerServer
from dspark.transport_security.tls_files import TlsFiles
from dspark.v1 import candidates_service_pb2 as candidates_pb
from dspark.v1 import scheduler_service_pb2 as scheduler_pb
from dspark.v1 import verifier_service_pb2 as verifier_pb
from dspark.v1.candidates_service_pb2_grpc import CandidatesServiceStub
from dspark.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from dspark.v1.verifier_service_pb2_grpc import VerifierServiceStub
from dspark.verifier.server import serving
from harness.certificates import Authority, settings_of
from harness.fake_model import FakeModel
from harness.gateway_stack import gateway_stack
from harness.verifier_service import fake_config, fake_loader
from harness.waiting import until

SERVICES = ("gateway", "scheduler", "candidates", "verifier")
CALLERS = {"scheduler": "gateway", "candidates": "scheduler", "verifier": "scheduler"}
_VOCAB = 300


class Deployment:
    """Certificates for all four, and servers that use them."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        self.files = {name: authority.issue(folder / name, name) for name in SERVICES}

    def settings(self, service: str) -> dict[str, Any]:
        return settings_of(self.files[service])

    @asynccontextmanager
    async def candidates(self) -> AsyncIterator[str]:
        config = CandidatesConfig(
            listen="127.0.0.1:0", propose_deadline_ms=1500.0, **self.settings("candidates")
        )
        server = CandidatesServer(Proposer(build_sources(config), config), config)
        port = await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop()

    @asynccontextmanager
    async def verifier(self) -> AsyncIterator[str]:
        config = fake_config(**self.settings("verifier"))
        async with serving(config, fake_loader(FakeModel(_VOCAB))) as verifier:
            yield f"127.0.0.1:{verifier.port}"

    @asynccontextmanager
    async def scheduler(
        self, verifier: str = "127.0.0.1:1", candidates: str = "", *, wait_ready: bool = True
    ) -> AsyncIterator[str]:
        server = SchedulerServer(
            SchedulerConfig(
                (verifier,),
                "127.0.0.1:0",
                (candidates,) if candidates else (),
                policy="fixed",
                propose_deadline_ms=2000.0,
                **self.settings("scheduler"),
            )
        )
        port = await server.start()
        if candidates and wait_ready:
            await until(lambda: server.scheduler.is_healthy)
            await until(lambda: bool(server.scheduler.info.sources))
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop()


async def ask(service: str, target: str, files: TlsFiles) -> grpc.StatusCode:
    """The status of a call that reads and changes nothing."""
    async with rpc.channel(target, files, service) as channel:
        call = {
            "scheduler": lambda: SchedulerServiceStub(channel).GetSchedulerStatus(
                scheduler_pb.GetSchedulerStatusRequest()
            ),
            "candidates": lambda: CandidatesServiceStub(channel).GetCandidatesInfo(
                candidates_pb.GetCandidatesInfoRequest()
            ),
            "verifier": lambda: VerifierServiceStub(channel).GetVerifierInfo(
                verifier_pb.GetVerifierInfoRequest()
            ),
        }[service]
        try:
            await call()
        except aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK


@pytest.mark.parametrize("service", CALLERS)
async def test_only_its_own_caller_may_call_a_service(service: str, tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    async with getattr(deployment, service)() as target:
        for caller in SERVICES:
            expected = "OK" if caller == CALLERS[service] else "PERMISSION_DENIED"
            assert (await ask(service, target, deployment.files[caller])).name == expected, caller


async def test_a_completion_passes_all_four_services(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    async with (
        deployment.verifier() as verifier,
        deployment.candidates() as candidates,
        deployment.scheduler(verifier, candidates) as scheduler,
        gateway_stack(
            tmp_path / "model",
            **deployment.settings("gateway"),
            scheduler_address=scheduler,
        ) as stack,
    ):
        response: httpx.Response = await stack.complete(
            max_tokens=64, ignore_eos=True, temperature=0
        )
        assert response.status_code == 200
        body = response.json()
        assert body["usage"]["completion_tokens"] == 64
        assert body["speculation"]["drafted"] > 0


async def test_a_scheduler_with_the_wrong_certificate_is_logged_once_on_each_side(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = Deployment(tmp_path)
    deployment.files["scheduler"] = deployment.files["gateway"]
    async with (
        deployment.verifier() as verifier,
        deployment.candidates() as candidates,
        deployment.scheduler(verifier, candidates, wait_ready=False),
    ):
        await asyncio.sleep(2.0)
    messages = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    for part in ("refused ipv4", "no verifier to use", "no candidates to use"):
        own = [message for message in messages if part in message]
        assert len(own) == (2 if part == "refused ipv4" else 1), messages
        assert all("gateway" in m if part == "refused ipv4" else "PERMISSION" in m for m in own)


async def test_a_gateway_with_the_wrong_certificate_says_503_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = Deployment(tmp_path)
    async with (
        deployment.scheduler() as scheduler,
        gateway_stack(
            tmp_path / "model",
            **deployment.settings("candidates"),
            scheduler_address=scheduler,
        ) as stack,
    ):
        response = await stack.complete()
        assert response.status_code == 503
        assert response.json()["error"]["message"] == "scheduler: does not answer"
    assert len([r for r in caplog.records if "the scheduler is not ready" in r.message]) == 1
