"""What requests were like, counted in plain numbers since the gateway's start."""

from __future__ import annotations

import time
from collections import Counter

from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution
from dspark.sampling import FinishReason, RequestTimes, Usage


class RequestBooks:
    """Own counters of one gateway process."""

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.ends: Counter[FinishReason] = Counter()
        self.failures: Counter[str] = Counter()
        # requests that lost their scheduler before, and after, their first token
        self.num_retries = 0
        self.num_resumptions = 0
        # requests that a limit of their API key refused, by the limit
        self.key_refusals: Counter[str] = Counter()
        # by route and status
        self.http_responses: Counter[tuple[str, str]] = Counter()
        self.first_token_s = Distribution(buckets.TTFT_SECONDS)
        self.token_gap_s = Distribution(buckets.TOKEN_SECONDS)
        self.per_token_s = Distribution(buckets.TOKEN_SECONDS)
        self.whole_s = Distribution(buckets.REQUEST_SECONDS)
        self.queue_s = Distribution(buckets.REQUEST_SECONDS)
        self.prefill_s = Distribution(buckets.REQUEST_SECONDS)
        self.decode_s = Distribution(buckets.REQUEST_SECONDS)
        self.inference_s = Distribution(buckets.REQUEST_SECONDS)
        self.prompt_lengths = Distribution(buckets.REQUEST_TOKENS)
        self.generation_lengths = Distribution(buckets.REQUEST_TOKENS)
        self.max_tokens = Distribution(buckets.REQUEST_TOKENS)

    def start(self, prompt_tokens: int, max_tokens: int) -> RequestTimer:
        self.prompt_tokens += prompt_tokens
        self.max_tokens.observe(max_tokens)
        return RequestTimer(self)

    def lost_scheduler(self, has_begun: bool) -> None:
        """A request is going to be sent again; ``has_begun`` if tokens of it were streamed."""
        if has_begun:
            self.num_resumptions += 1
        else:
            self.num_retries += 1

    def observe_times(self, times: RequestTimes) -> None:
        """Count the parts of a request's life at the scheduler."""
        self.queue_s.observe(times.queue_ms / 1e3)
        self.prefill_s.observe(times.prefill_ms / 1e3)
        self.decode_s.observe(times.decode_ms / 1e3)
        self.inference_s.observe((times.prefill_ms + times.decode_ms) / 1e3)


class RequestTimer:
    """Observes one request from its admission to its end."""

    def __init__(self, books: RequestBooks) -> None:
        self._books = books
        self._start = time.perf_counter()
        self._first: float | None = None
        self._last = self._start
        self._num_tokens = 0
        # of a request that ended by itself; the times only if the scheduler's last word came
        self.usage: Usage | None = None
        self.times: RequestTimes | None = None

    def observe_tokens(self, num_tokens: int) -> None:
        now = time.perf_counter()
        if self._first is None:
            self._first = now
            self._books.first_token_s.observe(now - self._start)
        else:
            self._books.token_gap_s.observe(now - self._last)
        self._last = now
        self._num_tokens += num_tokens
        self._books.generation_tokens += num_tokens

    def finish(self, reason: FinishReason) -> None:
        books = self._books
        books.ends[reason] += 1
        books.whole_s.observe(time.perf_counter() - self._start)
        if self._first is not None and self._num_tokens > 1:
            books.per_token_s.observe((self._last - self._first) / (self._num_tokens - 1))
        if self.usage is not None:
            books.prompt_lengths.observe(self.usage.prompt_tokens)
            books.generation_lengths.observe(self.usage.completion_tokens)
        if self.times is not None:
            books.observe_times(self.times)
