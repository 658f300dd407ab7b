"""Certificates change under load: no call fails, and a broken file changes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from dspark import rpc
from dspark.errors import BackendUnavailable
from dspark.transport_security.settings import ServerTransport
from dspark.transport_security.tls_files import TlsFiles
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.v1 import scheduler_service_pb2_grpc as pb_grpc
from dspark.watched_files import CHECK_S
from harness.certificates import Authority

SERVICE = "dspark.v1.SchedulerService"
SEEN_S = CHECK_S + 0.3


class Who(pb_grpc.SchedulerServiceServicer):
    """Notes the certificates of its callers; its stream ends when ``release`` is set."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.release = asyncio.Event()

    async def GetSchedulerStatus(
        self, request: pb.GetSchedulerStatusRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.GetSchedulerStatusResponse:
        self.seen.update(context.auth_context()["x509_pem_cert"])
        return pb.GetSchedulerStatusResponse()

    async def Generate(
        self, request: pb.SchedulerServiceGenerateRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.SchedulerServiceGenerateResponse]:
        yield pb.SchedulerServiceGenerateResponse()
        await self.release.wait()
        yield pb.SchedulerServiceGenerateResponse()


@asynccontextmanager
async def serving(files: TlsFiles) -> AsyncIterator[tuple[Who, str]]:
    server = rpc.Server([SERVICE], ServerTransport(files, frozenset({"gateway"})))
    servicer = Who()
    pb_grpc.add_SchedulerServiceServicer_to_server(servicer, server.grpc)
    port = await server.start("127.0.0.1:0")
    try:
        yield servicer, f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def ask(stub: pb_grpc.SchedulerServiceStub) -> None:
    await stub.GetSchedulerStatus(pb.GetSchedulerStatusRequest(), timeout=10)


async def ask_anew(target: str, files: TlsFiles) -> None:
    """Over a connection of its own."""
    async with rpc.channel(target, files, "scheduler") as channel:
        with rpc.errors_of("scheduler"):
            await ask(pb_grpc.SchedulerServiceStub(channel))


async def test_rotation_to_another_authority_under_load_fails_no_call(tmp_path: Path) -> None:
    old, new = Authority("old"), Authority("new")
    both = (old, new)
    server, client = tmp_path / "server", tmp_path / "client"
    old.issue(tmp_path / "left behind", "gateway")
    files = old.issue(server, "scheduler"), old.issue(client, "gateway")
    left_behind = TlsFiles(
        *(str(tmp_path / "left behind" / name) for name in ("tls.crt", "tls.key", "ca.crt"))
    )
    stopping = False
    num_calls = 0

    async def load(stub: pb_grpc.SchedulerServiceStub) -> None:
        nonlocal num_calls
        while not stopping:
            await ask(stub)
            num_calls += 1
            await asyncio.sleep(0.01)

    async with serving(files[0]) as (servicer, target):
        async with rpc.channel(target, files[1], "scheduler") as channel:
            stub = pb_grpc.SchedulerServiceStub(channel)
            stream = stub.Generate(pb.SchedulerServiceGenerateRequest())
            await stream.read()
            tasks = [asyncio.create_task(load(stub)) for _ in range(8)]
            # Trust both, then show the new, then trust the new alone.
            for signer, trusted in ((old, both), (new, both), (new, (new,))):
                signer.issue(client, "gateway", trusted=trusted)
                signer.issue(server, "scheduler", trusted=trusted)
                await asyncio.sleep(SEEN_S)
                await ask_anew(target, files[1])
            assert len(servicer.seen) == 4
            with pytest.raises(BackendUnavailable):
                await ask_anew(target, left_behind)
            stopping = True
            await asyncio.gather(*tasks)
            assert num_calls > 100
            # What began before the first change still runs, and ends as if nothing had been.
            servicer.release.set()
            assert await stream.read() is not aio.EOF
            assert await stream.read() is aio.EOF


async def test_broken_files_change_nothing_and_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    folder = tmp_path / "server"
    files = authority.issue(folder, "scheduler")
    client = authority.issue(tmp_path / "client", "gateway")
    whole = (folder / "tls.key").read_bytes()
    async with serving(files) as (_, target):
        caplog.set_level(logging.INFO)
        (folder / "tls.key").write_bytes(whole[:40])
        for _ in range(2):
            await asyncio.sleep(SEEN_S)
            await ask_anew(target, client)
        assert [r.levelname for r in caplog.records if "tls.key" in r.message] == ["ERROR"]
        assert whole.decode().splitlines()[1] not in caplog.text
        authority.issue(folder, "scheduler")
        await asyncio.sleep(SEEN_S)
        await ask_anew(target, client)
        levels = [r.levelname for r in caplog.records if "tls.key" in r.message]
        assert levels == ["ERROR", "INFO"]
