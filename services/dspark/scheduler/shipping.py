"""Ships K/V from one verifier to another through the scheduler, which may call both.

The request runs on while its blocks travel, and what it gets meanwhile is computed anew at the
other verifier, as its last block is. Whatever goes wrong, all of it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from dspark.clock import monotonic
from dspark.errors import UnknownRequest
from dspark.kv_blocks import BlockType, ImportHead, KvBlocks, KvLayout
from dspark.scheduler.request import Request
from dspark.scheduler.stats import MovingAverage
from dspark.scheduler.worker import Worker
from dspark.scheduler.worker_view import speed_of
from dspark.step import SequenceRef

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
# Between two verifiers where it failed, nothing is shipped for a while.
FAILURE_PAUSE_S = 30.0
# Until something was shipped: 100 MB/s.
FIRST_BYTES_PER_MS = 100_000.0
# What a shipment takes beside its bytes.
FIXED_MS = 10.0


class Importing(Protocol):
    """An import under way; messages and replies take turns."""

    async def begin(self, head: ImportHead) -> int:
        """Leading tokens that are there already."""
        ...

    async def add(self, blocks: KvBlocks) -> tuple[int, bool]:
        """Leading tokens that are there now, and whether no more fit."""
        ...

    def close(self) -> None: ...


class BlockClient(Protocol):
    """What shipping needs of a verifier's client."""

    def export_blocks(
        self, ref: SequenceRef, timeout_s: float
    ) -> AsyncGenerator[tuple[BlockType | None, KvBlocks], None]: ...
    def import_blocks(self, timeout_s: float) -> Importing: ...


class BlockShipping:
    """``client_of`` gives a worker's client; ``clock`` is in seconds."""

    def __init__(
        self,
        client_of: Callable[[Worker], BlockClient],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client_of = client_of
        self._clock = clock
        self._bytes_per_ms = MovingAverage(FIRST_BYTES_PER_MS)
        self._paused_until: dict[tuple[str, str], float] = {}

    def num_shipped(self, request: Request, origin: Worker, heir: Worker) -> int:
        """Tokens whose K/V is worth shipping; 0 where computing it anew is cheaper, or needed."""
        layout = _common_layout(origin, heir)
        if layout is None or not request.is_running or not request.spec.use_prefix_cache:
            return 0
        if self._clock() < self._paused_until.get((origin.name, heir.name), 0.0):
            return 0
        num_tokens = request.num_computed_tokens // layout.block_size * layout.block_size
        ship_ms = FIXED_MS + num_tokens * layout.token_bytes / self._bytes_per_ms.value
        return num_tokens if ship_ms < num_tokens * speed_of(heir).row_ms else 0

    async def ship(self, request: Request, origin: Worker, heir: Worker) -> bool:
        """Whether the other verifier has most of the request's K/V now."""
        text = tuple(request.token_ids)
        wanted = request.num_computed_tokens
        started = self._clock()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                num_tokens, num_bytes = await self._copy(request, text, origin, heir)
        except UnknownRequest:
            # It ended, or was preempted.
            return False
        except Exception as error:
            if not request.is_finished:
                log.warning("K/V cannot be shipped to verifier %s: %r", heir.name, error)
                self._pause(origin, heir)
            return False
        if num_bytes:
            self._bytes_per_ms.add(num_bytes / max((self._clock() - started) * 1e3, 1e-3))
        return num_tokens * 2 > wanted

    async def _copy(
        self, request: Request, text: tuple[int, ...], origin: Worker, heir: Worker
    ) -> tuple[int, int]:
        """Tokens that are there in the end, and bytes that were sent."""
        exported = self._client_of(origin).export_blocks(request.ref, TIMEOUT_S)
        importing = self._client_of(heir).import_blocks(TIMEOUT_S)
        num_tokens = num_bytes = 0
        async with contextlib.aclosing(exported):
            try:
                async for block_type, blocks in exported:
                    if block_type is not None:
                        head = ImportHead(block_type, text, request.spec.cache_salt)
                        num_tokens = await importing.begin(head)
                    num_tokens, is_full = await importing.add(blocks)
                    num_bytes += len(blocks.data)
                    if is_full:
                        break
            finally:
                importing.close()
        return num_tokens, num_bytes

    def _pause(self, origin: Worker, heir: Worker) -> None:
        now = self._clock()
        self._paused_until = {p: end for p, end in self._paused_until.items() if end > now}
        self._paused_until[origin.name, heir.name] = now + FAILURE_PAUSE_S


def _common_layout(origin: Worker, heir: Worker) -> KvLayout | None:
    """The layout of both, if blocks of one may be used by the other."""
    if not (origin.verifier.is_known and heir.can_inherit(origin)):
        return None
    layout = origin.verifier.info.kv_layout
    return layout if layout == heir.verifier.info.kv_layout else None
