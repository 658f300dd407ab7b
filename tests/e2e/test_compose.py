"""docker-compose.yml on a real engine: images, a completion, its trace, metrics, a killed service.

The tests share one stack and run in this order.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dspark.cli.supervision.ports import claim_port
from dspark.client import Client, Completion
from harness.container_stack import (
    SERVICES,
    ContainerStack,
    container_stack,
    engine_problem,
    eventually,
    wheelhouse_settings,
)
from harness.tiny_gguf import VOCAB_SIZE, write_tiny_gguf
from harness.tiny_models import tiny_model

pytestmark = [
    pytest.mark.docker,
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]
OURS = tuple(name for name in SERVICES if name != "redis")
MODEL = "/local/tiny.gguf"
READY_S = 300.0
HOST = "127.0.0.1"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER_SPAN = "00f067aa0ba902b7"
PROMPTS = [f"{number} one two three one two three" for number in range(12)]
METRICS_PORTS = {"scheduler": 9152, "candidates": 9153, "verifier": 9161}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerStack]:
    if problem := engine_problem():
        pytest.skip(problem)
    models = tmp_path_factory.mktemp("models")
    # Containers read it as another user.
    for folder in (models, *list(models.parents)[:2]):
        folder.chmod(0o755)
    write_tiny_gguf(models / "tiny.gguf", tiny_model("llama", VOCAB_SIZE))
    settings = wheelhouse_settings() | {
        "MODEL": MODEL,
        "LOCAL_MODELS": str(models),
        "IMAGE_TAG": "e2e",
        "HTTP_PORT": str(claim_port(HOST, 0, "--http-port")),
        "GRPC_PORT": str(claim_port(HOST, 0, "--grpc-port")),
        "OTLP_ENDPOINT": "http://spans:4317",
        "KV_TOKENS": "16384",
        "VERIFIER_MEMORY": "2g",
    }
    with container_stack("dspark-e2e", settings) as stack:
        await_ready(stack)
        yield stack
    assert stack.leftovers() == []


def await_ready(stack: ContainerStack) -> None:
    def is_ready() -> bool:
        try:
            return httpx.get(f"{url(stack)}/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    eventually(is_ready, READY_S, lambda: stack.compose("ps") + stack.compose("logs"))


def url(stack: ContainerStack) -> str:
    return f"http://{HOST}:{stack.settings['HTTP_PORT']}"


def client(stack: ContainerStack) -> Client:
    return Client(f"{HOST}:{stack.settings['GRPC_PORT']}")


def counters(page: str) -> dict[str, float]:
    """Each counter's sum over its labels, by name."""
    return {
        family.name: sum(s.value for s in family.samples if s.name.endswith("_total"))
        for family in text_string_to_metric_families(page)
        if family.type == "counter"
    }


def counted(stack: ContainerStack) -> dict[str, float]:
    """The counters of all services; those inside are asked from within their containers."""
    found = counters(httpx.get(f"{url(stack)}/metrics", timeout=10).text)
    for service, port in METRICS_PORTS.items():
        ask = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/metrics')"
        page = stack.shell(service, f'python -c "{ask}.read().decode())"')
        assert page.returncode == 0, page.stderr
        found |= counters(page.stdout)
    return found


def streamed(stack: ContainerStack, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a streamed completion, sent with a caller's trace."""
    headers = {"traceparent": f"00-{TRACE_ID}-{CALLER_SPAN}-01"}
    events = []
    with httpx.stream(
        "POST", f"{url(stack)}/v1/completions", json=body, headers=headers, timeout=60
    ) as response:
        assert response.status_code == 200, response.read()
        for line in response.iter_lines():
            if line.startswith("data: "):
                events.append(line.removeprefix("data: "))
    assert events.pop() == "[DONE]"
    return [json.loads(event) for event in events]


def test_every_service_becomes_healthy(stack: ContainerStack) -> None:
    for service in SERVICES:
        eventually(lambda s=service: stack.is_healthy(s), READY_S, lambda s=service: stack.logs(s))  # type: ignore[misc]
    model = stack.container("model")["State"]
    assert (model["Status"], model["ExitCode"]) == ("exited", 0)


@pytest.mark.parametrize("service", SERVICES)
def test_containers_have_no_rights_that_they_do_not_need(
    stack: ContainerStack, service: str
) -> None:
    user = stack.shell(service, "id -u").stdout.strip()
    assert user.isdigit() and user != "0"
    assert stack.shell(service, "echo x > /written").returncode != 0
    capabilities = stack.shell(service, "grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status").stdout
    assert {line.split()[1] for line in capabilities.splitlines()} == {"0" * 16}
    assert stack.shell(service, "grep NoNewPrivs /proc/self/status").stdout.split()[1] == "1"
    assert stack.container(service)["HostConfig"]["Memory"] > 0


@pytest.mark.parametrize("service", SERVICES)
def test_only_the_gateway_is_reached_from_outside(stack: ContainerStack, service: str) -> None:
    published = {
        port: [f"{binding['HostIp']}:{binding['HostPort']}" for binding in bindings]
        for port, bindings in stack.container(service)["NetworkSettings"]["Ports"].items()
        if bindings
    }
    ours = {
        "8000/tcp": [f"{HOST}:{stack.settings['HTTP_PORT']}"],
        "50051/tcp": [f"{HOST}:{stack.settings['GRPC_PORT']}"],
    }
    assert published == (ours if service == "gateway" else {})


@pytest.mark.parametrize("service", OURS)
def test_an_image_holds_one_service_and_torch_only_where_it_computes(
    stack: ContainerStack, service: str
) -> None:
    held = set(stack.shell(service, "ls /opt/dspark/dspark").stdout.split())
    assert held & {*OURS, "cli"} == {service}
    has_torch = stack.shell(service, "python -c 'import torch'").returncode == 0
    assert has_torch == (service == "verifier")
    assert stack.shell(service, "command -v g++ gcc cc pip pip3").stdout == ""


def test_the_verifier_runs_kernels_of_its_image(stack: ContainerStack) -> None:
    mapped = stack.shell("verifier", "cat /proc/[0-9]*/maps | grep -o '/opt/kernels/.*so'").stdout
    assert len(set(mapped.split())) == 1


def test_a_streamed_completion_and_its_trace(stack: ContainerStack) -> None:
    body = {"model": MODEL, "prompt": PROMPTS[0], "max_tokens": 24, "temperature": 0}
    whole = httpx.post(f"{url(stack)}/v1/completions", json=body, timeout=60).json()
    events = streamed(stack, body | {"stream": True})
    texts = [event["choices"][0]["text"] for event in events if event["choices"]]
    assert "".join(texts) == whole["choices"][0]["text"]
    assert sum(bool(text) for text in texts) > 1
    spans: list[dict[str, Any]] = []

    def is_whole() -> bool:
        lines = stack.logs("spans").splitlines()
        spans[:] = [span for span in map(json.loads, lines) if span["trace_id"] == TRACE_ID]
        return {span["service"] for span in spans} == {f"dspark-{name}" for name in OURS}

    eventually(is_whole, 60, lambda: str([(span["service"], span["name"]) for span in spans]))
    ids = {span["span_id"] for span in spans}
    (root,) = [span for span in spans if span["parent_id"] not in ids]
    assert (root["service"], root["parent_id"]) == ("dspark-gateway", CALLER_SPAN)
    assert root["attributes"]["gen_ai.usage.output_tokens"] == 24


def test_metrics_add_up(stack: ContainerStack) -> None:
    before = counted(stack)
    with client(stack) as api:
        done = [api.generate(prompt, max_tokens=48, temperature=0) for prompt in PROMPTS]
    after = counted(stack)
    added = {name: after[name] - before.get(name, 0) for name in after}
    prompt = sum(completion.usage.prompt_tokens for completion in done)
    generated = sum(len(completion.token_ids) for completion in done)
    drafted = sum(completion.speculation.drafted for completion in done)
    accepted = sum(completion.speculation.accepted for completion in done)
    assert drafted > 0
    assert {
        name: added[name]
        for name in (
            "vllm:prompt_tokens",
            "vllm:generation_tokens",
            "vllm:request_success",
            "vllm:spec_decode_num_draft_tokens",
            "vllm:spec_decode_num_accepted_tokens",
            "dspark_scheduler_generation_tokens",
            "dspark_verifier_committed_tokens",
            "dspark_verifier_verified_nodes",
            "dspark_verifier_accepted_nodes",
        )
    } == {
        "vllm:prompt_tokens": prompt,
        "vllm:generation_tokens": generated,
        "vllm:request_success": len(done),
        "vllm:spec_decode_num_draft_tokens": drafted,
        "vllm:spec_decode_num_accepted_tokens": accepted,
        "dspark_scheduler_generation_tokens": generated,
        "dspark_verifier_committed_tokens": generated,
        "dspark_verifier_verified_nodes": drafted,
        "dspark_verifier_accepted_nodes": accepted,
    }
    assert added["dspark_candidates_source_rounds"] > 0


def test_streams_survive_a_killed_verifier(stack: ContainerStack) -> None:
    def complete(number: int, on_first: threading.Barrier | None = None) -> Completion:
        with client(stack) as api:
            stream = api.stream(
                PROMPTS[number % len(PROMPTS)],
                max_tokens=420,
                temperature=0.8,
                seed=number,
                ignore_eos=True,
                speculation=False,
            )
            for index, _ in enumerate(stream):
                if index == 0 and on_first is not None:
                    on_first.wait(60)
            return stream.completion

    restarts = stack.container("verifier")["RestartCount"]
    numbers = range(16)
    with ThreadPoolExecutor(len(numbers)) as pool:
        undisturbed = list(pool.map(complete, numbers))
        all_begun = threading.Barrier(len(numbers) + 1)
        running = [pool.submit(complete, number, all_begun) for number in numbers]
        all_begun.wait(60)
        # All processes of the container but its init and the shell.
        stack.shell("verifier", "kill -9 -1")
        cut = sum(not job.done() for job in running)
        disturbed = [job.result() for job in running]
    assert cut > 0
    assert [c.token_ids for c in disturbed] == [c.token_ids for c in undisturbed]
    assert stack.container("verifier")["RestartCount"] > restarts
    eventually(lambda: stack.is_healthy("verifier"), READY_S, lambda: stack.logs("verifier"))


def test_a_killed_candidates_service_comes_back(stack: ContainerStack) -> None:
    restarts = stack.container("candidates")["RestartCount"]
    with client(stack) as api:
        before = api.generate(PROMPTS[1], max_tokens=48, temperature=0)
        stack.shell("candidates", "kill -9 -1")
        during = api.generate(PROMPTS[1], max_tokens=48, temperature=0)
    assert during.token_ids == before.token_ids
    eventually(lambda: stack.is_healthy("candidates"), READY_S, lambda: stack.logs("candidates"))
    assert stack.container("candidates")["RestartCount"] > restarts


def test_logs_are_json_and_hold_no_prompt(stack: ContainerStack) -> None:
    for service in OURS:
        lines = stack.logs(service).splitlines()
        objects = [json.loads(line) for line in lines if line.startswith("{")]
        assert objects, lines
        assert not any("one two three" in line for line in lines)


def test_stopping_ends_services_by_themselves(stack: ContainerStack) -> None:
    stack.compose("stop", *OURS)
    codes = {service: stack.container(service)["State"]["ExitCode"] for service in OURS}
    assert codes == dict.fromkeys(OURS, 0)
