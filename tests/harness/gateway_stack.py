"""A whole gateway on real sockets in front of a scripted scheduler."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import openai
from tokenizers import Tokenizer

from dspark.gateway.config import GatewayConfig
from dspark.gateway.server import GatewayServer
from harness.byte_tokenizer import CHAT_TEMPLATE, byte_tokenizer, write_model_dir
from harness.fake_scheduler import FakeScheduler

MODEL = "test-model"


@dataclass
class GatewayStack:
    """A running gateway, its scheduler and an HTTP client of it."""

    server: GatewayServer
    scheduler: FakeScheduler
    client: httpx.AsyncClient

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.http_port}"

    @property
    def grpc_target(self) -> str:
        return f"127.0.0.1:{self.server.grpc_port}"

    def openai(self) -> openai.AsyncOpenAI:
        """OpenAI's own client of it, which sends nothing twice."""
        return openai.AsyncOpenAI(base_url=f"{self.base_url}/v1", api_key="none", max_retries=0)

    @property
    def last_prompt(self) -> str:
        """The text of the prompt that the scheduler got last."""
        ids = self.scheduler.requests[-1].prompt_token_ids
        return byte_tokenizer().decode(list(ids), skip_special_tokens=False)

    async def complete(self, **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/completions", json={"prompt": "hi", **fields})

    async def chat(self, **fields: Any) -> httpx.Response:
        messages = [{"role": "user", "content": "hi"}]
        body = {"messages": messages, **fields}
        return await self.client.post("/v1/chat/completions", json=body)

    async def metric(self, sample: str) -> float:
        """The value of one line of /metrics, such as ``name_total{finished_reason="stop"``."""
        text = (await self.client.get("/metrics")).text
        lines = [line for line in text.splitlines() if line.startswith(sample)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


@asynccontextmanager
async def gateway_stack(
    model_dir: Path,
    scheduler: FakeScheduler | None = None,
    tokenizer: Tokenizer | None = None,
    chat_template: str | None = CHAT_TEMPLATE,
    scheduler_address: str = "",
    **settings: Any,
) -> AsyncIterator[GatewayStack]:
    """``settings`` are fields of GatewayConfig; an address stands for another scheduler."""
    write_model_dir(model_dir, tokenizer, chat_template)
    async with scheduler or FakeScheduler() as fake:
        config = GatewayConfig(
            model_dir=str(model_dir),
            served_model_name=MODEL,
            scheduler=(scheduler_address or fake.target,),
            http="127.0.0.1:0",
            grpc="127.0.0.1:0",
            drain_s=5.0,
        )
        server = GatewayServer(replace(config, **settings))
        await server.start()
        stopped = asyncio.create_task(server.wait_stopped())
        await server.gateway.monitor.refresh()
        address = f"http://127.0.0.1:{server.http_port}"
        async with httpx.AsyncClient(base_url=address, timeout=10.0) as client:
            yield GatewayStack(server, fake, client)
        server.stop()
        await stopped


def sse_events(text: str) -> list[Any]:
    """The data of each event: parsed JSON, or the end mark as a string."""
    blocks = [block for block in text.split("\n\n") if block]
    assert all(block.startswith("data: ") for block in blocks)
    data = [block.removeprefix("data: ") for block in blocks]
    return [item if item == "[DONE]" else json.loads(item) for item in data]
