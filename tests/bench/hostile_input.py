"""What hostile requests cost a gateway, and for how long they hold up the streams beside them.

    PYTHONPATH=tests python tests/bench/hostile_input.py [--only WORDS]

For each: the answer, the gateway's processor time, the longest time for which its event loop could
not run (in processor time too), and the longest gap between tokens of a stream beside it, which a
busy machine makes longer. The gateway runs in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import uvloop
from grpc import aio

from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import GatewayStack, gateway_stack
from harness.hostile_bodies import BODIES, HEAVY
from harness.hostile_messages import MESSAGES
from harness.loop_lag import loop_lag

SERVICE = "dspark.v1.InferenceService"
GENERATING = "Generate"
Send = Callable[[], Awaitable[str]]


async def serve(pipe: Connection, scheduler: str, folder: Path) -> None:
    """A gateway that tells its addresses, then at each word what it used since the last."""
    stack: GatewayStack
    async with gateway_stack(folder, scheduler_address=scheduler) as stack, loop_lag() as lag:
        pipe.send((stack.base_url, stack.grpc_target))
        while await asyncio.to_thread(pipe.recv):
            pipe.send((time.process_time(), lag.longest_s))
            lag.longest_s = 0.0


def run_gateway(pipe: Connection, scheduler: str, folder: Path) -> None:
    uvloop.run(serve(pipe, scheduler, folder))


async def gaps_of_stream(client: httpx.AsyncClient, gaps: list[float]) -> None:
    body = {"prompt": "hi", "stream": True, "max_tokens": 10**5}
    async with client.stream("POST", "/v1/completions", json=body, timeout=None) as reply:
        last = time.perf_counter()
        async for _ in reply.aiter_raw():
            now = time.perf_counter()
            gaps.append(now - last)
            last = now


def over_http(client: httpx.AsyncClient, path: str, body: bytes) -> Send:
    async def send() -> str:
        reply = await client.post(path, content=body)
        if reply.status_code == 200:
            return "200"
        return f"{reply.status_code} {reply.json()['error']['message'][:60]}"

    return send


def over_grpc(channel: aio.Channel, method: str, message: bytes) -> Send:
    async def send() -> str:
        path = f"/{SERVICE}/{method}"
        try:
            if method == GENERATING:
                async for _ in channel.unary_stream(path)(message):
                    pass
            else:
                await channel.unary_unary(path)(message)
        except aio.AioRpcError as error:
            return f"{error.code().name} {error.details()[:50]}"
        return "OK"

    return send


async def measure(pipe: Connection, requests: dict[str, Send], gaps: list[float]) -> None:
    for name, send in requests.items():
        await asyncio.sleep(0.3)
        pipe.send(True)
        before, _ = pipe.recv()
        gaps.clear()
        start = time.perf_counter()
        answer = await send()
        took = time.perf_counter() - start
        await asyncio.sleep(0.1)
        pipe.send(True)
        after, lag = pipe.recv()
        figures = (took, after - before, lag, max(gaps))
        columns = " ".join(f"{seconds * 1e3:7.0f}" for seconds in figures)
        print(f"{columns}  {name}: {answer}", flush=True)


async def main_with(arguments: argparse.Namespace) -> None:
    def kept(table: Any) -> dict[str, Any]:
        return {name: value for name, value in table.items() if arguments.only in name}

    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    script = Script(runs_of("neighbour"), repeat=True, delay_s=0.005)
    async with FakeScheduler(script=script, max_model_len=10**5 + 10) as scheduler:
        with tempfile.TemporaryDirectory() as folder:
            child = multiprocessing.get_context("spawn").Process(
                target=run_gateway, args=(theirs, scheduler.target, Path(folder))
            )
            child.start()
            try:
                url, target = await asyncio.to_thread(ours.recv)
                gaps: list[float] = []
                options = [("grpc.max_send_message_length", -1)]
                async with (
                    httpx.AsyncClient(base_url=url) as beside,
                    httpx.AsyncClient(base_url=url, timeout=None) as client,
                    aio.insecure_channel(target, options=options) as channel,
                ):
                    stream = asyncio.create_task(gaps_of_stream(beside, gaps))
                    print("   took     cpu     lag     gap  (ms)")
                    sends = {
                        f"HTTP {n}": over_http(client, each.path, each.body)
                        for n, each in kept({**BODIES, **HEAVY}).items()
                    }
                    sends |= {
                        f"gRPC {n}": over_grpc(channel, each.method, each.message)
                        for n, each in kept(MESSAGES).items()
                    }
                    await measure(ours, sends, gaps)
                    stream.cancel()
                    ours.send(False)
                    await asyncio.gather(stream, return_exceptions=True)
            finally:
                child.join(10)
                child.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="only those with these words in their names")
    uvloop.run(main_with(parser.parse_args()))


if __name__ == "__main__":
    main()
