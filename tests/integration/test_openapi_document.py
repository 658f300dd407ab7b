"""The OpenAPI document tells the truth: generated calls get the replies that it declares."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from harness.gateway_stack import gateway_stack

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
PATHS = (
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/responses",
    "/tokenize",
    "/detokenize",
    "/v1/embeddings",
    "/v1/models",
    "/v1/models/{model}",
    "/health",
    "/ready",
    "/version",
    "/metrics",
)
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
# Those whose bodies can be anything.
BODIES = PATHS[:5]


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway on a thread of its own, for callers that block."""
    found: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve(folder: Path) -> None:
        async with gateway_stack(folder) as stack:
            found.set_result(stack.base_url)
            await stop.wait()

    folder = tmp_path_factory.mktemp("model")
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(folder),))
    thread.start()
    yield found.result(timeout=30)
    loop.call_soon_threadsafe(stop.set)
    thread.join(timeout=30)
    loop.close()


@pytest.fixture(scope="module")
def schema(server_url: str) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{server_url}/openapi.json")


def test_it_has_every_path(schema: schemathesis.BaseSchema) -> None:
    assert set(schema.raw_schema["paths"]) == set(PATHS)
    schema.validate()


def check_calls(schema: schemathesis.BaseSchema, path: str, num_calls: int) -> None:
    operation = next(iter(schema[path].values()))
    allowed, refused = (operation.as_strategy(generation_mode=mode) for mode in MODES)
    has_body = path in BODIES

    @given(case=st.one_of(allowed, refused) if has_body else allowed)
    @settings(
        max_examples=num_calls,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def call(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS)

    call()


@pytest.mark.parametrize("path", PATHS)
def test_calls_get_what_it_declares(schema: schemathesis.BaseSchema, path: str) -> None:
    check_calls(schema, path, 20)


@pytest.mark.long
@pytest.mark.parametrize("path", BODIES)
def test_thousands_of_calls_meet_no_bug(schema: schemathesis.BaseSchema, path: str) -> None:
    check_calls(schema, path, 400)
