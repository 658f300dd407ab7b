"""A running ``dspark serve`` answers every sort of client."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import httpx
import openai
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from dspark.client import Client
from harness.served import SERVICES, Served

pytestmark = pytest.mark.e2e
MODEL = "tiny-llama"
MAX_MODEL_LEN = 512


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dspark.cli", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


def complete(server: Served, **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/completions", json=fields, timeout=60)


def test_four_services_run_and_progress_was_shown(server: Served) -> None:
    assert set(server.children) == SERVICES
    assert f"starting the services for {MODEL}" in server.output
    assert "verifier: " in server.output
    assert "warming up" in server.output


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_line_works_as_pasted(server: Served) -> None:
    done = subprocess.run(
        ["bash", "-c", server.curl_line], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout)["choices"][0]["message"]["role"] == "assistant"


def test_the_openai_package(server: Served) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == [MODEL]
        whole = client.completions.create(model=MODEL, prompt="ab", max_tokens=8, temperature=0)
        assert whole.usage is not None
        assert whole.usage.completion_tokens <= 8
        chunks = client.completions.create(
            model=MODEL, prompt="ab", max_tokens=8, temperature=0, stream=True
        )
        assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
        chat = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=8
        )
        assert chat.choices[0].finish_reason in ("stop", "length")


def test_the_sdk(server: Served) -> None:
    with Client(server.grpc_target) as client:
        (model,) = client.models()
        assert (model.id, model.max_model_len) == (MODEL, MAX_MODEL_LEN)
        whole = client.generate("hello", max_tokens=24, seed=1, ignore_eos=True)
        stream = client.stream("hello", max_tokens=24, seed=1, ignore_eos=True)
        assert tuple(token for chunk in stream for token in chunk.token_ids) == whole.token_ids
        assert len(whole.token_ids) == whole.usage.completion_tokens == 24
        assert whole.steps.forward_ms > 0


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.3])
def test_speculation_changes_no_token(server: Served, temperature: float) -> None:
    options: Any = {"max_tokens": 64, "temperature": temperature, "seed": 5, "ignore_eos": True}
    with Client(server.grpc_target) as client:
        for prompt in ("abcabcabcabc", "x"):
            plain = client.generate(prompt, speculation=False, use_prefix_cache=False, **options)
            assert plain.speculation.drafted == 0
            assert client.generate(prompt, **options).token_ids == plain.token_ids


def test_a_client_that_knows_nothing_but_reflection(server: Served) -> None:
    with grpc.insecure_channel(server.grpc_target) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert "dspark.v1.InferenceService" in database.get_services()
        pool = descriptor_pool.DescriptorPool(database)
        service = pool.FindServiceByName("dspark.v1.InferenceService")
        method = service.FindMethodByName("Generate")
        request_class = message_factory.GetMessageClass(method.input_type)
        response_class = message_factory.GetMessageClass(method.output_type)
        call = channel.unary_stream(
            "/dspark.v1.InferenceService/Generate",
            request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString,
        )
        request = request_class(text="hi", sampling={"max_tokens": 4, "ignore_eos": True})
        events = [event.WhichOneof("event") for event in call(request, timeout=60)]
    assert (events[0], events[-1], set(events[1:-1])) == ("started", "complete", {"chunk"})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": "x" * MAX_MODEL_LEN, "max_tokens": 1}, str(MAX_MODEL_LEN)),
        ({"prompt": "x" * 10 * MAX_MODEL_LEN, "max_tokens": 1}, str(MAX_MODEL_LEN)),
        ({"prompt": [1, 258]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": "x", "no_such_field": 1}, "no_such_field"),
        ({"prompt": "x", "temperature": "hot"}, "temperature"),
        ({"prompt": "x", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "x", "model": "other"}, "other"),
    ],
)
def test_wrong_inputs_are_4xx_and_name_the_field(
    server: Served, fields: dict[str, Any], named: str
) -> None:
    response = complete(server, **fields)
    assert 400 <= response.status_code < 500, response.text
    assert named in response.text
    assert complete(server, prompt="x", max_tokens=1).status_code == 200


def test_broken_json_is_a_400(server: Served) -> None:
    response = httpx.post(f"{server.url}/v1/completions", content=b'{"prompt": ')
    assert response.status_code == 400


@pytest.mark.parametrize("room", [1, 2])
def test_a_prompt_that_just_fits_gets_its_tokens(server: Served, room: int) -> None:
    response = complete(
        server, prompt=[65] * (MAX_MODEL_LEN - room), max_tokens=room, ignore_eos=True
    )
    assert response.status_code == 200
    assert response.json()["usage"]["completion_tokens"] == room


def test_generate_and_chat_commands(server: Served) -> None:
    for base_url in (server.url, server.grpc_target):
        done = command("generate", "hi", "--base-url", base_url, "--max-tokens", "4", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["model"] == MODEL
    chat = subprocess.run(
        [
            *(sys.executable, "-m", "dspark.cli", "chat", "--base-url", server.grpc_target),
            *("--max-tokens", "8", "--temperature", "0"),
        ],
        input="hi\n/reset\nhi\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert chat.returncode == 0, chat.stderr
    assert chat.stderr.count("from speculation]") == 2


def test_bench_command(server: Served, tmp_path: Path) -> None:
    prompts, out = tmp_path / "prompts.json", tmp_path / "out.json"
    prompts.write_text(json.dumps([{"kind": "k", "user": "u", "prompt": p} for p in ("ab", "cd")]))
    done = command(
        *("bench", "--base-url", server.url, "--prompts", str(prompts), "--json", str(out)),
        *("--max-tokens", "16", "--concurrency", "1,2", "--temperature", "0.8"),
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    assert results["identical"] is True
    assert results["compared_requests"] == 2 + 8
    assert all(each["tokens_per_s"] > 0 for each in results["runs"])
