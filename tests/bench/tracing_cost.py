"""What traces cost: the same load on services with traces off, on but not sampled, and on.

    python tests/bench/tracing_cost.py --concurrency 1,8 --repeats 7

Three sets of services run side by side and take the load in turn, so that what the machine does
meanwhile hits all alike; each round's throughputs are compared with that of "off" in the same
round. Spans go to a sink in a process of its own that takes bytes and does not look at them.
Prints the median loss with its quartiles, and the time that a step spends finding out that traces
are off. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from unittest import mock

import grpc

from dspark.cli.benchmark.load import LoadSettings, run_load
from dspark.cli.benchmark.plan import BenchPrompt, plan_requests
from dspark.cli.embedded import embedded_services
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.client import AsyncClient
from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams
from dspark.scheduler import step_trace
from dspark.scheduler.batcher import Batch, ScheduledRows
from dspark.scheduler.request import Request

OFF, UNSAMPLED, SAMPLED = "off", "on, not sampled", "on, sampled"
TOPICS = ("a lighthouse", "three rivers", "an old clock", "the night train", "a garden", "glass")
EXPORT = "opentelemetry.proto.collector.trace.v1.TraceService"


def serve_sink() -> None:
    """Take spans until killed; the first line of stdout is the port."""

    def take(data: bytes, context: grpc.ServicerContext) -> bytes:
        return b""

    handlers = {"Export": grpc.unary_unary_rpc_method_handler(take)}
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(EXPORT, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


@contextmanager
def sink() -> Iterator[int]:
    """A sink process; yields its port."""
    command = [sys.executable, __file__, "--sink"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def variables(port: int) -> dict[str, dict[str, str]]:
    """What turns traces on, for each kind of services."""
    on = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
    return {
        OFF: {},
        UNSAMPLED: {**on, "OTEL_TRACES_SAMPLER": "always_off"},
        SAMPLED: {**on, "OTEL_TRACES_SAMPLER": "always_on"},
    }


async def measure(options: argparse.Namespace, port: int) -> None:
    prompts = [BenchPrompt("story", f"A story of {topic}:") for topic in TOPICS]
    settings = LoadSettings(options.max_tokens, 0.0, use_prefix_cache=False)
    async with AsyncExitStack() as stack:
        clients: dict[str, AsyncClient] = {}
        for kind, extra in variables(port).items():
            with mock.patch.dict(os.environ, extra):
                config = ServicesConfig(model=options.model)
                address = await stack.enter_async_context(embedded_services(config, Progress()))
            clients[kind] = await stack.enter_async_context(AsyncClient(address))
        for concurrency in options.concurrency:
            requests = plan_requests(prompts, concurrency, seed=0)
            speeds: dict[str, list[float]] = {kind: [] for kind in clients}
            for repeat in range(options.repeats + 1):
                order = list(clients)[repeat % 3 :] + list(clients)[: repeat % 3]
                for kind in order:
                    run = await run_load(
                        clients[kind],
                        requests,
                        settings,
                        speculation=True,
                        concurrency=concurrency,
                    )
                    # The first round warms up.
                    if repeat:
                        speeds[kind].append(run.tokens_per_s)
            report(concurrency, speeds)


def report(concurrency: int, speeds: dict[str, list[float]]) -> None:
    print(f"{concurrency} in flight, {len(speeds[OFF])} rounds")
    for kind, values in speeds.items():
        losses = [100 * (1 - v / off) for v, off in zip(values, speeds[OFF], strict=True)]
        low, middle, high = statistics.quantiles(losses, n=4)
        speed = statistics.median(values)
        print(
            f"  {kind:16} {speed:8.1f} tokens/s, loss {middle:+.1f} % ({low:+.1f} to {high:+.1f})"
        )


def print_cost_of_off() -> None:
    """What every step pays for traces that are off."""
    requests = [
        Request(RequestSpec(str(number), (1,), SamplingParams()), number) for number in range(16)
    ]
    batch = Batch(tuple(ScheduledRows(request, 1) for request in requests), 0)
    rounds = 20_000
    started = time.process_time()
    for _ in range(rounds):
        step_trace.begin(batch)
        step_trace.traceparents_of(requests)
        step_trace.traceparents_of(requests)
    micros = (time.process_time() - started) / rounds * 1e6
    print(f"traces off: {micros:.1f} us of a step with 16 requests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--concurrency", type=_numbers, default=(1, 8))
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sink", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sink:
        serve_sink()
        return
    print_cost_of_off()
    with sink() as port:
        asyncio.run(measure(options, port))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    main()
