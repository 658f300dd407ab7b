"""Base URLs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from dspark.cli.address import grpc_target
from dspark.cli.failure import CliError


class Models(BaseHTTPRequestHandler):
    """Answers every GET of the models with ``status`` and ``answer``."""

    answer: ClassVar[Any] = None
    status: ClassVar[int] = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(json.dumps(self.answer).encode())

    def log_message(self, format: str, *args: object) -> None:
        return None


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Models) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("base_url", "target"),
    [
        ("localhost:1", "localhost:1"),
        ("grpc://10.0.0.1:50051", "10.0.0.1:50051"),
        ("grpc://10.0.0.1:50051/", "10.0.0.1:50051"),
        ("[::1]:5", "[::1]:5"),
        ("unix:/tmp/x.sock", "unix:/tmp/x.sock"),
    ],
)
def test_grpc_addresses(base_url: str, target: str) -> None:
    assert grpc_target(base_url) == target


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "localhost",
        "a:b",
        "host:99999",
        "host:1/path",
        ":1",
        "http://",
        "https://:1",
        "ftp://h:1",
    ],
)
def test_what_is_no_address_is_refused(base_url: str) -> None:
    with pytest.raises(CliError, match="--base-url"):
        grpc_target(base_url)


@pytest.mark.parametrize("suffix", ["", "/", "/v1"])
def test_an_http_server_tells_its_grpc_port(
    url: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Models, "answer", {"data": [{"dspark": {"grpc_port": 1234}}]})
    assert grpc_target(url + suffix) == "127.0.0.1:1234"


@pytest.mark.parametrize("answer", [{}, {"data": []}, {"data": [{"id": "other"}]}, [], "x"])
def test_another_http_server_is_refused(
    url: str, answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Models, "answer", answer)
    with pytest.raises(CliError, match="no DSpark server"):
        grpc_target(url)


def test_another_path_is_one_line(url: str) -> None:
    with pytest.raises(CliError, match="answers 404") as caught:
        grpc_target(f"{url}/v2")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "the API key is not valid (DSPARK_API_KEY)"),
        (503, "the API key is not valid"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_server(
    url: str, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Models, "status", status)
    monkeypatch.setattr(Models, "answer", {"error": {"message": "the API key is not valid"}})
    with pytest.raises(CliError) as caught:
        grpc_target(url)
    assert str(caught.value) == f"{url}/v1/models answers {status}: {said}"


def test_no_http_server_at_all() -> None:
    with pytest.raises(CliError, match="does not answer"):
        grpc_target("http://127.0.0.1:1")
