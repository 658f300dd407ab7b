"""The script that makes certificates for development makes ones that work."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from dspark import rpc
from dspark.transport_security.settings import ServerTransport
from harness.certificates import files_in
from harness.repository import ROOT

SERVICE = "dspark.v1.VerifierService"
SCRIPT = ROOT / "compose" / "tls" / "make_certs.sh"


def make(folder: Path, *names: str) -> None:
    subprocess.run([SCRIPT, folder, *names], check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make(folder, "api.example.org", "10.1.2.3")
    return folder


async def test_services_know_each_other(folder: Path) -> None:
    transport = ServerTransport(files_in(folder / "verifier"), frozenset({"scheduler"}))
    server = rpc.Server([SERVICE], transport)
    port = await server.start("127.0.0.1:0")
    await server.set_ready(True)
    files = files_in(folder / "scheduler")
    async with rpc.channel(f"127.0.0.1:{port}", files, "verifier") as channel:
        assert await rpc.is_ready(channel, SERVICE, timeout=10)
    async with rpc.channel(f"127.0.0.1:{port}", files, "candidates") as channel:
        assert not await rpc.is_ready(channel, SERVICE, timeout=10)
    await server.stop(0)


def test_the_public_certificate_has_its_names(folder: Path) -> None:
    text = subprocess.run(
        [
            "openssl",
            "x509",
            "-in",
            folder / "public" / "tls.crt",
            "-noout",
            "-ext",
            "subjectAltName",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in ("DNS:localhost", "DNS:api.example.org", "IP Address:10.1.2.3"):
        assert name in text
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "public" / "tls.crt", folder / "public" / "tls.key")


def test_running_it_again_renews_under_the_same_authority(folder: Path) -> None:
    before = {name: (folder / name).read_bytes() for name in ("ca.crt", "verifier/tls.crt")}
    make(folder)
    assert (folder / "ca.crt").read_bytes() == before["ca.crt"]
    assert (folder / "verifier" / "tls.crt").read_bytes() != before["verifier/tls.crt"]


def test_keys_are_for_their_owner_alone(folder: Path) -> None:
    keys = list(folder.rglob("*.key"))
    assert len(keys) == 6
    assert all(key.stat().st_mode & 0o077 == 0 for key in keys)
