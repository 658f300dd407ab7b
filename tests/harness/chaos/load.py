"""Clients that keep a fleet busy, and come back where no promise covers them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence

from harness.chaos.fleet import Fleet
from harness.chaos.fronts import GatewayClients
from harness.chaos.outcome import Answer, BrokenProtocol, ConnectionLost, Outcome
from harness.chaos.stream_spec import StreamSpec

# No stream may take longer, whatever happens: more would be a hang.
DEADLINE_S = 90.0
_RETRY_PAUSE_S = 0.1


class Load:
    """Runs requests at the gateways that are ready, so many at a time."""

    def __init__(self, fleet: Fleet, concurrency: int, deadline_s: float = DEADLINE_S) -> None:
        plan = fleet.plan
        self._clients = [
            GatewayClients(str(plan.socket(f"{name}-http")), str(plan.socket(name)))
            for name in plan.gateways
        ]
        self._concurrency = concurrency
        self._deadline_s = deadline_s
        self._next_client = 0
        self.num_running = 0

    async def run_all(self, specs: Sequence[StreamSpec]) -> list[Outcome]:
        """Each once."""
        return await self.run_until(iter(specs), lambda: False)

    async def run_until(
        self,
        specs: Iterable[StreamSpec],
        is_over: Callable[[], bool],
        hang_ups: random.Random | None = None,
        hang_up_share: float = 0.0,
    ) -> list[Outcome]:
        """Take requests until there is none or it is over; wait for those that run.

        With ``hang_ups`` that share of the clients goes away in the middle.
        """
        outcomes: list[Outcome] = []
        source = iter(specs)

        async def work() -> None:
            while not is_over():
                spec = next(source, None)
                if spec is None:
                    return
                patience_s = None
                if hang_ups is not None and hang_ups.random() < hang_up_share:
                    patience_s = hang_ups.uniform(0.0, 0.5)
                outcomes.append(await self._run(spec, patience_s))

        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(work())
        return outcomes

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _run(self, spec: StreamSpec, patience_s: float | None) -> Outcome:
        outcome = Outcome(spec)
        self.num_running += 1
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._run_patiently(outcome, patience_s)
        except TimeoutError:
            outcome.error = f"it hangs: no end after {self._deadline_s:g} s"
        except (BrokenProtocol, RuntimeError) as error:
            outcome.error = f"{type(error).__name__}: {error}"
        finally:
            self.num_running -= 1
        return outcome

    async def _run_patiently(self, outcome: Outcome, patience_s: float | None) -> None:
        if patience_s is None:
            await self._run_to_its_end(outcome)
            return
        running = asyncio.create_task(self._run_to_its_end(outcome))
        done, _ = await asyncio.wait({running}, timeout=patience_s)
        if done:
            running.result()
        else:
            outcome.hung_up = True
            running.cancel()
            await asyncio.wait({running})

    async def _run_to_its_end(self, outcome: Outcome) -> None:
        """Again and again while the connection breaks: that is the client's part."""
        while True:
            client = await self._pick()
            outcome.answer = Answer()
            try:
                await client.run(outcome.spec, outcome.answer)
                return
            except ConnectionLost:
                outcome.broken.append((time.monotonic(), outcome.answer))
                await asyncio.sleep(_RETRY_PAUSE_S)

    async def _pick(self) -> GatewayClients:
        while True:
            for _ in self._clients:
                self._next_client += 1
                client = self._clients[self._next_client % len(self._clients)]
                if await client.is_ready():
                    return client
            await asyncio.sleep(_RETRY_PAUSE_S)
