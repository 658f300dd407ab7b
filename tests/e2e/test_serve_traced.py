"""``dspark serve`` sends one trace a sampled request, and what waits is sent when it stops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.otlp_receiver import otlp_receiver
from harness.served import ready_server

pytestmark = pytest.mark.e2e
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE_ID, PARENT_SPAN = PARENT.split("-")[1:3]
SERVICES = {"dspark-gateway", "dspark-scheduler", "dspark-candidates", "dspark-verifier"}
# Longer than the test: spans are sent because the processes end.
VARIABLES = {
    "OTEL_BSP_SCHEDULE_DELAY": "600000",
    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
    "OTEL_TRACES_SAMPLER_ARG": "0",
}


def complete(url: str, traceparent: str = "") -> dict[str, Any]:
    body = {"prompt": "abcabcabcabc", "max_tokens": 40, "temperature": 0, "ignore_eos": True}
    headers = {"traceparent": traceparent} if traceparent else {}
    response = httpx.post(f"{url}/v1/completions", json=body, headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_a_sampled_request_is_one_tree_of_four_processes(
    tmp_path: Path, tiny_model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.grpc_endpoint)
        for name, value in VARIABLES.items():
            monkeypatch.setenv(name, value)
        with ready_server(tmp_path, tiny_model_dir, "--policy", "fixed") as server:
            plain = complete(server.url)
            traced = complete(server.url, PARENT)
            assert traced["choices"][0]["text"] == plain["choices"][0]["text"]
            assert not receiver.spans
            server.press_ctrl_c()
            assert server.process.wait(20) == 0
    spans = receiver.spans
    assert {span.trace_id for span in spans} == {TRACE_ID}
    assert {span.service for span in spans} == SERVICES
    ids = {span.span_id for span in spans}
    (root,) = (span for span in spans if span.parent_id not in ids)
    assert root.parent_id == PARENT_SPAN
    steps = [span.attributes for span in spans if span.name == "step"]
    told = traced["speculation"]
    assert sum(step["dspark.tree.nodes"] for step in steps) == told["drafted"]
    assert sum(step["dspark.accepted_nodes"] for step in steps) == told["accepted"]
    assert sum(step["dspark.committed_tokens"] for step in steps) == 40
    verified = [span for span in spans if span.name == "verify"]
    assert len(verified) == len(steps)
    assert all(span.attributes["dspark.step.forward_ms"] > 0 for span in verified)
