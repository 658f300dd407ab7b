"""A generic gRPC client, which knows the services from reflection alone, runs the README's lines.

The client is ``buf curl``, whose requests are those of grpcurl: JSON objects of the messages.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import GatewayStack, gateway_stack
from harness.repository import ROOT

README = ROOT / "README.md"
BUF = Path(sys.executable).with_name("buf")
SERVICE = "dspark.v1.InferenceService"
TEMPLATE = (
    "{% for m in messages %}<|turn|>{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
    "<|end|>{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
TOOL = {"name": "weather", "parameters": '{"type": "object"}'}
QUESTION = {"role": "user", "content": "Rain?"}


def readme_commands() -> list[list[str]]:
    """The arguments of the README's lines of grpcurl, as a shell reads them."""
    (block,) = re.findall(r"^(?: {4}grpcurl .*\n(?: {4}.*\n)*)", README.read_text(), re.MULTILINE)
    script = f"grpcurl() {{ printf '%s\\0' \"$@\" ''; }}\n{block}"
    shown = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True)
    return [line.split("\0") for line in shown.stdout.removesuffix("\0\0").split("\0\0")]


CALLS = [command for command in readme_commands() if "-d" in command]
BODIES = [command[command.index("-d") + 1] for command in CALLS]


async def curl(stack: GatewayStack, *arguments: str) -> str:
    """What the client prints; the last argument is the method, or empty."""
    url, flags = f"http://{stack.grpc_target}", ("--protocol", "grpc", "--http2-prior-knowledge")
    process = await asyncio.create_subprocess_exec(
        BUF,
        "curl",
        *flags,
        *arguments[:-1],
        f"{url}/{arguments[-1]}" if arguments[-1] else url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, stderr.decode()
    return stdout.decode()


def objects(text: str) -> list[dict[str, Any]]:
    found, text = [], text.strip()
    while text:
        value, end = json.JSONDecoder().raw_decode(text)
        found.append(value)
        text = text[end:].lstrip()
    return found


async def generate(stack: GatewayStack, body: dict[str, Any] | str) -> list[dict[str, Any]]:
    data = body if isinstance(body, str) else json.dumps(body)
    return objects(await curl(stack, "-d", data, f"{SERVICE}/Generate"))


def _text(events: list[dict[str, Any]]) -> str:
    return "".join(event.get("chunk", {}).get("text", "") for event in events)


@pytest.mark.parametrize("body", BODIES)
async def test_the_readmes_lines(stack: GatewayStack, body: str) -> None:
    events = await generate(stack, body)
    assert list(events[0]) == ["started"] and list(events[-1]) == ["complete"]
    assert _text(events) == "Hello, world."
    assert stack.scheduler.requests[0].sampling.max_tokens == 64


def test_the_readme_lists_the_services_and_sends_a_text_and_a_chat() -> None:
    first, *others = readme_commands()
    assert first[-1] == "list" and others == CALLS
    assert {command[-1] for command in others} == {f"{SERVICE}/Generate"}
    kinds = [set(json.loads(body)) & {"text", "chat"} for body in BODIES]
    assert kinds == [{"text"}, {"chat"}]


async def test_the_services_are_listed(stack: GatewayStack) -> None:
    listed = await curl(stack, "--list-services", "")
    assert SERVICE in listed


async def test_a_stream_comes_in_pieces(stack: GatewayStack) -> None:
    events = await generate(stack, {"text": "hi", "sampling": {"maxTokens": 6, "seed": "7"}})
    assert len([event for event in events if "chunk" in event]) == 6
    assert _text(events) == "Hello,"
    assert events[0]["started"]["seed"] == "7"
    assert events[-1]["complete"]["finishReason"] == "FINISH_REASON_LENGTH"


async def test_a_tool_flow(tmp_path: Path) -> None:
    scheduler = FakeScheduler(max_model_len=4096, script=Script([*runs_of(CALL), [256]]))
    async with gateway_stack(tmp_path, scheduler, chat_template=TEMPLATE) as stack:
        asked = {"chat": {"messages": [QUESTION], "tools": [TOOL]}}
        events = await generate(stack, asked)
        deltas = [d for event in events for d in event.get("chunk", {}).get("toolCalls", [])]
        arguments = "".join(delta.get("arguments", "") for delta in deltas)
        assert deltas[0]["name"] == "weather" and json.loads(arguments) == {"city": "Rome"}
        assert events[-1]["complete"]["callsTools"] is True

        scheduler.script = Script([*runs_of("No."), [256]])
        call = {"id": deltas[0]["id"], "name": "weather", "arguments": arguments}
        turns = [
            QUESTION,
            {"role": "assistant", "toolCalls": [call]},
            {"role": "tool", "toolCallId": call["id"], "content": "dry"},
        ]
        assert _text(await generate(stack, {"chat": {"messages": turns, "tools": [TOOL]}})) == "No."


async def test_other_methods(stack: GatewayStack) -> None:
    (tokens,) = objects(await curl(stack, "-d", '{"text": "hi"}', f"{SERVICE}/Tokenize"))
    assert tokens["tokenIds"] == [104, 105]
    (models,) = objects(await curl(stack, f"{SERVICE}/ListModels"))
    assert [model["id"] for model in models["models"]] == ["test-model"]
    (health,) = objects(await curl(stack, "grpc.health.v1.Health/Check"))
    assert health == {"status": "SERVING"}
