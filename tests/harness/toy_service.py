"""A service process with health and nothing else; flags make it misbehave."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from dspark import rpc

NAME = "dspark.v1.InferenceService"


async def serve(arguments: argparse.Namespace) -> None:
    print("progress: loading", file=sys.stderr, flush=True)
    print("an ordinary line", flush=True)
    if arguments.exit_code is not None:
        print("the reason", file=sys.stderr, flush=True)
        sys.exit(arguments.exit_code)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, (lambda: None) if arguments.stubborn else stop.set)
    server = rpc.Server([NAME])
    await server.start(arguments.listen)
    await server.set_ready(not arguments.never_ready)
    await stop.wait()
    await server.stop(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True)
    parser.add_argument("--exit-code", type=int)
    for flag in ("--stubborn", "--never-ready"):
        parser.add_argument(flag, action="store_true")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
