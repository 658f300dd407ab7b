"""Refuses requests that would wait longer than requests of their class may."""

from __future__ import annotations

import math

from dspark.errors import Overloaded, QueueFull
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.token_rates import TokenRates
from dspark.scheduler.fairness.waiting_work import Ahead
from dspark.scheduler.request import Request

MAX_RETRY_S = 3600


class WaitForecast:
    """A wait is the tokens that go before, by the rates that were measured."""

    def __init__(self, settings: FairnessSettings, rates: TokenRates) -> None:
        self._settings = settings
        self._rates = rates

    def wait_s(self, ahead: Ahead) -> float:
        """The predicted wait; 0 before anything was measured."""
        return self._rates.seconds(ahead.own.plus(ahead.others))

    def check(self, request: Request, ahead: Ahead) -> None:
        """Raises Overloaded, or QueueFull where the tenant's own requests are the reason.

        Both say when the wait will have come down to what is allowed, if nothing more is sent.
        """
        limit_s = self._settings.max_wait_s(request.spec.request_class)
        wait_s = self.wait_s(ahead)
        if not limit_s or wait_s <= limit_s:
            return
        retry_s = min(max(math.ceil(wait_s - limit_s), 1), MAX_RETRY_S)
        kind = request.spec.request_class.value
        problem = f"would wait for about {wait_s:.0f} s; {kind} requests may wait for {limit_s:g} s"
        if request.spec.tenant and self._rates.seconds(ahead.own) > limit_s:
            raise QueueFull(f"behind others of its tenant it {problem}").retry_in(retry_s)
        raise Overloaded(f"the request {problem}").retry_in(retry_s)
