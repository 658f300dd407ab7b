"""TLS at the gateway for HTTP and gRPC clients, and limits on what comes before a body."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from dspark.cli.address import grpc_target
from dspark.cli.failure import CliError
from dspark.client import AsyncClient, Client, TlsFiles
from dspark.config import SettingError
from dspark.errors import BackendUnavailable, DSparkError, MessageTooLarge
from dspark.gateway.http_protocol import MAX_HEAD_BYTES
from dspark.gateway.server import AddressError
from dspark.watched_files import CHECK_S
from harness.certificates import Authority
from harness.gateway_stack import GatewayStack, gateway_stack


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> TlsFiles:
    return authority.issue(tmp_path / "tls", "api.example.org")


@pytest.fixture
async def stack(tmp_path: Path, files: TlsFiles) -> AsyncIterator[GatewayStack]:
    settings = {"http_tls_cert": files.cert, "http_tls_key": files.key}
    async with gateway_stack(tmp_path, **settings) as stack:
        yield stack


def https(stack: GatewayStack, host: str = "127.0.0.1") -> str:
    return f"https://{host}:{stack.server.http_port}"


async def shown(stack: GatewayStack, files: TlsFiles, host: str) -> bytes:
    """The certificate that a new connection sees."""
    context = ssl.create_default_context(cafile=files.ca)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", stack.server.http_port, ssl=context, server_hostname=host
    )
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    assert reader.at_eof() or reader is not None
    return bytes(certificate)


async def test_http_over_tls(stack: GatewayStack, files: TlsFiles) -> None:
    context = ssl.create_default_context(cafile=files.ca)
    async with httpx.AsyncClient(base_url=https(stack), verify=context) as client:
        response = await client.post("/v1/completions", json={"prompt": "hi"})
        assert response.status_code == 200
        assert response.json()["choices"][0]["text"]


async def test_grpc_over_tls(stack: GatewayStack, files: TlsFiles) -> None:
    async with AsyncClient(stack.grpc_target, tls=TlsFiles(ca=files.ca)) as client:
        assert (await client.generate("hi")).text
    async with AsyncClient(f"grpcs://{stack.grpc_target}") as client:  # the system's authorities
        with pytest.raises(BackendUnavailable, match=r"(?i:certificate|handshake)"):
            await client.generate("hi", timeout=10)
    async with AsyncClient(stack.grpc_target) as client:
        with pytest.raises(BackendUnavailable):
            await client.generate("hi", timeout=10)


async def test_the_sync_client_over_tls(stack: GatewayStack, files: TlsFiles) -> None:
    def ask() -> str:
        with Client(stack.grpc_target, tls=TlsFiles(ca=files.ca)) as client:
            return client.generate("hi").text

    assert await asyncio.to_thread(ask)


async def test_the_command_line_finds_its_way_over_https(
    stack: GatewayStack, files: TlsFiles
) -> None:
    tls = TlsFiles(ca=files.ca)
    target = await asyncio.to_thread(grpc_target, https(stack), tls)
    assert target == f"grpcs://{stack.grpc_target}"
    async with AsyncClient(target, tls=tls) as client:
        assert (await client.generate("hi")).text
    with pytest.raises(CliError, match="certificate verify failed"):
        await asyncio.to_thread(grpc_target, https(stack), None)


async def test_http_without_tls_gets_nothing(stack: GatewayStack) -> None:
    with pytest.raises(httpx.HTTPError):
        await stack.client.get("/health")


async def test_the_certificate_changes_without_a_restart(
    stack: GatewayStack, files: TlsFiles, authority: Authority, tmp_path: Path
) -> None:
    hosts = ("localhost", "127.0.0.1")  # with and without a name in the handshake
    before = {await shown(stack, files, host) for host in hosts}
    assert len(before) == 1
    authority.issue(tmp_path / "tls", "api.example.org")
    await asyncio.sleep(CHECK_S + 0.2)
    after = {await shown(stack, files, host) for host in hosts}
    assert len(after) == 1 and after != before
    (tmp_path / "tls" / "tls.key").write_text("half a k")
    await asyncio.sleep(CHECK_S + 0.2)
    assert {await shown(stack, files, host) for host in hosts} == after
    async with AsyncClient(stack.grpc_target, tls=TlsFiles(ca=files.ca)) as client:
        assert (await client.generate("hi")).text


async def test_a_key_of_another_certificate_stops_the_start(
    tmp_path: Path, files: TlsFiles, authority: Authority
) -> None:
    other = authority.issue(tmp_path / "other", "x")
    settings = {"http_tls_cert": files.cert, "http_tls_key": other.key}
    with pytest.raises((AddressError, SettingError), match="no usable pair: key values mismatch"):
        async with gateway_stack(tmp_path, **settings):
            pass


async def test_grpc_messages_over_the_limit_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway_stack(tmp_path, max_body_bytes=10_000) as stack:
        async with AsyncClient(stack.grpc_target) as client:
            for size in (10_001, 15_000, 100_000, 1_000_000):
                with pytest.raises(MessageTooLarge):
                    await client.generate("x" * size)
            assert (await client.generate("hi")).text

    assert len([r for r in caplog.records if "refused a message" in r.message]) == 1


async def test_metadata_over_the_limit_is_refused(tmp_path: Path) -> None:
    async with (
        gateway_stack(tmp_path) as stack,
        AsyncClient(stack.grpc_target, api_key="x" * 100_000) as client,
    ):
        with pytest.raises(DSparkError, match="metadata"):
            await client.generate("hi", timeout=10)
    assert not stack.scheduler.requests


async def raw(stack: GatewayStack, data: bytes) -> bytes:
    """All that the server answers until it hangs up, which may cut off what it has not read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.server.http_port)
    writer.write(data)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(10):
            while more := await reader.read(4096):
                answer += more
    writer.close()
    return answer


async def test_a_head_over_the_limit_is_refused(tmp_path: Path) -> None:
    long = b"x" * (MAX_HEAD_BYTES + 1)
    heads = (
        b"GET /health HTTP/1.1\r\nHost: a\r\nX-Long: " + long + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nX-Long: " + long * 4,
        b"GET /" + long + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X-Many: 1\r\n" * 20_000,
        long * 5,
    )
    async with gateway_stack(tmp_path) as stack:
        for head in heads:
            answer = await raw(stack, head)
            status = answer.split(b" ")[1] if answer else b"(closed)"
            assert status in (b"431", b"400"), head[:40]
        # Large bodies are not heads, and neither are several requests of one connection.
        content = b'{"prompt": "' + b"x" * 300_000 + b'"}'
        for _ in range(2):
            response = await stack.client.post("/v1/completions", content=content)
            assert response.status_code == 400
            assert response.json()["error"]["code"] == "context_length_exceeded"


async def test_a_head_that_does_not_come_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspark.gateway.http_protocol.HEAD_TIMEOUT_S", 0.2)
    async with gateway_stack(tmp_path) as stack:
        assert await raw(stack, b"") == b""
        assert await raw(stack, b"GET /health HTTP/1.1\r\nHost:") == b""
