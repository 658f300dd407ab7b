"""Who gets through to a service with mTLS, and what the others are told."""

from __future__ import annotations

import datetime
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from dspark import rpc
from dspark.config import SettingError
from dspark.errors import BackendUnavailable
from dspark.transport_security.settings import ServerTransport
from dspark.transport_security.tls_files import TlsFiles
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.v1 import scheduler_service_pb2_grpc as pb_grpc
from harness.certificates import Authority

SERVICE = "dspark.v1.SchedulerService"
SPIFFE = "spiffe://example.org/dspark/"
DAY = datetime.timedelta(days=1)


class Echo(pb_grpc.SchedulerServiceServicer):
    """Answers each kind of call."""

    async def GetSchedulerStatus(
        self, request: pb.GetSchedulerStatusRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.GetSchedulerStatusResponse:
        return pb.GetSchedulerStatusResponse(num_running=3)

    async def Generate(
        self, request: pb.SchedulerServiceGenerateRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.SchedulerServiceGenerateResponse]:
        yield pb.SchedulerServiceGenerateResponse()


@pytest.fixture
def authority() -> Authority:
    return Authority()


@asynccontextmanager
async def serving(
    files: TlsFiles, allowed: tuple[str, ...] = ("gateway",), **transport: Any
) -> AsyncIterator[str]:
    server = rpc.Server([SERVICE], ServerTransport(files, frozenset(allowed), **transport))
    pb_grpc.add_SchedulerServiceServicer_to_server(Echo(), server.grpc)
    port = await server.start("127.0.0.1:0")
    await server.set_ready(True)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def ask(target: str, tls: TlsFiles | None, service: str = "scheduler") -> int:
    """Raises what a service's client raises."""
    async with rpc.channel(target, tls, service) as channel:
        stub = pb_grpc.SchedulerServiceStub(channel)
        with rpc.errors_of("scheduler"):
            return (await stub.GetSchedulerStatus(pb.GetSchedulerStatusRequest())).num_running


Issue = Callable[[Authority, Path], TlsFiles]
LET_IN: dict[str, Issue] = {
    "dns name": lambda a, f: a.issue(f, "gateway"),
    "common name alone": lambda a, f: a.issue(f, "gateway", dns=()),
    "spiffe": lambda a, f: a.issue(f, "x", uris=[SPIFFE + "gateway"]),
}
REFUSED: dict[str, Issue] = {
    "another service": lambda a, f: a.issue(f, "candidates"),
    "spiffe of another": lambda a, f: a.issue(f, "gateway", uris=[SPIFFE + "candidates"]),
    "two spiffe ids": lambda a, f: a.issue(f, "x", uris=[SPIFFE + "gateway", SPIFFE + "b"]),
    "common name beside names": lambda a, f: a.issue(f, "gateway", dns=("other",)),
    "name inside a name": lambda a, f: a.issue(f, "gateway.example.org"),
    "spiffe path below": lambda a, f: a.issue(f, "x", uris=[SPIFFE + "gateway/evil"]),
    "spiffe with query": lambda a, f: a.issue(f, "x", uris=[SPIFFE + "gateway?"]),
}
BROKEN: dict[str, Issue] = {
    "no certificate": lambda a, f: TlsFiles(ca=a.issue(f, "gateway").ca),
    "another authority": lambda a, f: Authority("evil").issue(f, "gateway", trusted=[a]),
    "expired": lambda a, f: a.issue(f, "gateway", starts=-2 * DAY, ends=-DAY),
    "not yet valid": lambda a, f: a.issue(f, "gateway", starts=DAY, ends=2 * DAY),
}


@pytest.mark.parametrize("issue", LET_IN.values(), ids=LET_IN)
async def test_the_allowed_peer_is_answered(
    authority: Authority, tmp_path: Path, issue: Issue
) -> None:
    async with serving(authority.issue(tmp_path / "server", "scheduler")) as target:
        files = issue(authority, tmp_path / "client")
        assert await ask(target, files) == 3
        async with rpc.channel(target, files, "scheduler") as channel:
            stub = pb_grpc.SchedulerServiceStub(channel)
            request = pb.SchedulerServiceGenerateRequest()
            assert len([each async for each in stub.Generate(request)]) == 1


@pytest.mark.parametrize("issue", REFUSED.values(), ids=REFUSED)
async def test_another_peer_is_refused_and_logged_once(
    authority: Authority, tmp_path: Path, issue: Issue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(authority.issue(tmp_path / "server", "scheduler")) as target:
        files = issue(authority, tmp_path / "client")
        async with rpc.channel(target, files, "scheduler") as channel:
            stub = pb_grpc.SchedulerServiceStub(channel)
            for _ in range(3):
                with pytest.raises(aio.AioRpcError) as caught:
                    await stub.GetSchedulerStatus(pb.GetSchedulerStatusRequest())
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
                assert caught.value.details() == "this certificate may not make this call"
            with pytest.raises(aio.AioRpcError) as caught:
                await anext(aiter(stub.Generate(pb.SchedulerServiceGenerateRequest())))
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            # It may still see whether the service is well, and what it offers.
            assert await rpc.is_ready(channel, SERVICE, timeout=10)
            assert SERVICE in await _listed(channel)
        with pytest.raises(BackendUnavailable, match="PERMISSION_DENIED"):
            await ask(target, files)
    refusals = [r for r in caplog.records if "refused" in r.message]
    assert len(refusals) == 1
    assert "GetSchedulerStatus" in refusals[0].message


@pytest.mark.parametrize("issue", BROKEN.values(), ids=BROKEN)
async def test_a_certificate_that_proves_nothing_reaches_no_call(
    authority: Authority, tmp_path: Path, issue: Issue
) -> None:
    async with serving(authority.issue(tmp_path / "server", "scheduler")) as target:
        files = issue(authority, tmp_path / "client")
        with pytest.raises(BackendUnavailable, match="UNAVAILABLE"):
            await ask(target, files)
        async with rpc.channel(target, files, "scheduler") as channel:
            assert not await rpc.is_ready(channel, SERVICE, timeout=10)


async def test_without_tls_nothing_is_answered(authority: Authority, tmp_path: Path) -> None:
    async with serving(authority.issue(tmp_path / "server", "scheduler")) as target:
        with pytest.raises(BackendUnavailable, match="UNAVAILABLE"):
            await ask(target, None)


SERVERS: dict[str, Issue] = {
    "another service": lambda a, f: a.issue(f, "candidates"),
    "another authority": lambda a, f: Authority("evil").issue(f, "scheduler", trusted=[a]),
    "expired": lambda a, f: a.issue(f, "scheduler", starts=-2 * DAY, ends=-DAY),
}


@pytest.mark.parametrize("issue", SERVERS.values(), ids=SERVERS)
async def test_a_caller_trusts_no_other_server(
    authority: Authority, tmp_path: Path, issue: Issue
) -> None:
    async with serving(issue(authority, tmp_path / "server")) as target:
        with pytest.raises(BackendUnavailable, match=r"UNAVAILABLE.*(?i:verif|handshake|peer)"):
            await ask(target, authority.issue(tmp_path / "client", "gateway"))


async def test_a_whole_spiffe_id_can_be_allowed(authority: Authority, tmp_path: Path) -> None:
    allowed = ("spiffe://example.org/ns/prod/sa/front",)
    async with serving(authority.issue(tmp_path / "server", "scheduler"), allowed) as target:
        files = authority.issue(tmp_path / "front", "x", uris=allowed)
        assert await ask(target, files) == 3
        with pytest.raises(BackendUnavailable, match="PERMISSION_DENIED"):
            await ask(target, authority.issue(tmp_path / "gateway", "gateway"))


async def test_health_has_a_port_of_its_own_without_tls(
    authority: Authority, tmp_path: Path, unused_tcp_port: int
) -> None:
    files = authority.issue(tmp_path / "server", "scheduler")
    async with serving(files, health_port=unused_tcp_port):
        async with rpc.channel(f"127.0.0.1:{unused_tcp_port}") as channel:
            assert await rpc.is_ready(channel, SERVICE, timeout=10)
            stub = pb_grpc.SchedulerServiceStub(channel)
            with pytest.raises(aio.AioRpcError) as caught:
                await stub.GetSchedulerStatus(pb.GetSchedulerStatusRequest())
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_unix_socket_needs_no_certificate(authority: Authority, tmp_path: Path) -> None:
    files = authority.issue(tmp_path / "server", "scheduler")
    server = rpc.Server([SERVICE], ServerTransport(files, frozenset({"gateway"})))
    pb_grpc.add_SchedulerServiceServicer_to_server(Echo(), server.grpc)
    await server.start(f"unix:{tmp_path}/s.sock")
    assert await ask(f"unix:{tmp_path}/s.sock", files) == 3
    await server.stop(0)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "other"])
async def test_files_that_cannot_be_used_stop_the_start(
    authority: Authority, tmp_path: Path, name: str, damage: str
) -> None:
    files = authority.issue(tmp_path, "scheduler")
    path = tmp_path / name
    content = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "other":
            path.write_bytes(b"-----BEGIN NOTHING-----\n")
    server = rpc.Server([SERVICE], ServerTransport(files, frozenset({"gateway"})))
    with pytest.raises(SettingError, match=name):
        await server.start("127.0.0.1:0")


async def _listed(channel: aio.Channel) -> list[str]:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(timeout=10)
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    await call.done_writing()
    return [each.name async for reply in call for each in reply.list_services_response.service]
