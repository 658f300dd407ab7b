"""How much each API key runs and has used, held against its limits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dspark.errors import InvalidArgument, RateLimited
from dspark.gateway.caller import Caller
from dspark.gateway.token_bucket import TokenBucket

Clock = Callable[[], float]
Spend = Callable[[int], None]


class _Used:
    """What one key runs now, and the tokens that it has left."""

    def __init__(self) -> None:
        self.num_running = 0
        self.bucket: TokenBucket | None = None


class KeyBudgets:
    """Keys are told apart by name: one that is replaced keeps what was used under its name."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[str, _Used] = {}

    @contextmanager
    def held(self, caller: Caller, num_choices: int) -> Iterator[Spend]:
        """Around an answer; call what it gives with each number of tokens used.

        Raises RateLimited, or InvalidArgument for more choices than the key may ever run at once.
        """
        if not caller.limits.fields():
            yield _spend_nothing
            return
        used = self._used.setdefault(caller.name, _Used())
        self._check_concurrency(caller, used, num_choices)
        self._check_rate(caller, used)
        used.num_running += num_choices
        try:
            yield lambda num_tokens: self._spend(used, num_tokens)
        finally:
            used.num_running -= num_choices

    def _check_concurrency(self, caller: Caller, used: _Used, num_choices: int) -> None:
        limit = caller.limits.max_concurrency
        if limit is None:
            return
        if num_choices > limit:
            problem = f"asks for {num_choices} choices; this API key may run {limit} at a time"
            raise InvalidArgument("n", problem)
        if used.num_running + num_choices > limit:
            problem = f"this API key may run {limit} at a time, and {used.num_running} run"
            raise RateLimited("max_concurrency", problem)

    def _check_rate(self, caller: Caller, used: _Used) -> None:
        rate, now = caller.limits.tokens_per_minute, self._clock()
        if rate is None:
            used.bucket = None
            return
        if used.bucket is None:
            used.bucket = TokenBucket(rate, now)
        used.bucket.set_rate(rate, now)
        if (wait_s := used.bucket.wait_s(now)) > 0:
            problem = f"this API key may use {rate} tokens a minute, and has used them"
            raise RateLimited("tokens_per_minute", problem).retry_in(math.ceil(wait_s))

    def _spend(self, used: _Used, num_tokens: int) -> None:
        if used.bucket is not None:
            used.bucket.spend(num_tokens, self._clock())


def _spend_nothing(num_tokens: int) -> None:
    pass
