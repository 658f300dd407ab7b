"""``python -m dspark.scheduler --listen unix:/run/s.sock --verifier unix:/run/v.sock``"""

from __future__ import annotations

import asyncio
import logging
import signal

import uvloop

from dspark import config
from dspark.garbage import keep_what_is_there
from dspark.metrics.endpoint import MetricsEndpoint
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.metrics import metrics_registry
from dspark.scheduler.server import SchedulerServer
from dspark.telemetry.process import telemetry

log = logging.getLogger("dspark.scheduler")


async def serve(settings: SchedulerConfig) -> None:
    """Run until SIGTERM or SIGINT, then drain. SIGUSR1 logs where the time of steps goes."""
    stop = asyncio.Event()
    server = SchedulerServer(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(
        signal.SIGUSR1, lambda: log.info("%s", server.scheduler.timings.describe())
    )
    metrics = MetricsEndpoint(metrics_registry(server.scheduler), settings.metrics_port)
    await server.start()
    keep_what_is_there()
    log.info("listening on %s", settings.listen)
    await stop.wait()
    log.info("draining for up to %g s", settings.drain_s)
    await server.stop(settings.drain_s)
    metrics.close()


def main() -> None:
    settings = config.parse(SchedulerConfig, "Runs requests to their end.")
    with config.bad_settings_end("scheduler"), telemetry("scheduler", settings):
        uvloop.run(serve(settings))


if __name__ == "__main__":
    main()
