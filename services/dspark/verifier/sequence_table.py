"""The live sequences, and what happens when messages about them come late or never."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dspark.step import SequenceAdmission, SequenceRef
from dspark.verifier.admission import Limits, new_sequence
from dspark.verifier.kv.block_pool import BlockPool
from dspark.verifier.kv.prefix_cache import PrefixCache
from dspark.verifier.sequence import Sequence
from dspark.verifier.structure.compiler import Structures


class SequenceTable:
    """Owns the live sequences and their blocks.

    A sequence lives under a lease that each step naming it renews; an orphaned one is reclaimed. A
    release that overtakes its admission leaves a tombstone, so that the late admission is ignored.
    """

    def __init__(
        self,
        pool: BlockPool,
        cache: PrefixCache,
        limits: Limits,
        *,
        block_size: int,
        lease_s: float,
        tombstone_s: float,
        clock: Callable[[], float],
        structures: Structures,
    ) -> None:
        self._pool = pool
        self._cache = cache
        self._limits = limits
        self._block_size = block_size
        self._lease_s = lease_s
        self._tombstone_s = tombstone_s
        self._clock = clock
        self._structures = structures
        self._live: dict[str, Sequence] = {}
        # request id to (released epoch, time at which it is forgotten)
        self._tombstones: dict[str, tuple[int, float]] = {}
        self.num_reclaimed = 0
        # tokens of admitted sequences that were looked up in the prefix cache, and found there
        self.num_queried_tokens = 0
        self.num_hit_tokens = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._live.values())

    def get(self, request_id: str) -> Sequence | None:
        return self._live.get(request_id)

    def admit(self, admission: SequenceAdmission) -> int:
        """Add a checked sequence unless it is known or already released; returns cached tokens.

        An older incarnation of the same request is replaced.
        """
        known = self._live.get(admission.request_id)
        if known is not None and known.epoch >= admission.epoch:
            known.last_touched = self._clock()
            return known.num_cached_tokens
        if self._is_buried(admission):
            return 0
        if known is not None:
            self.drop(known)
        sequence = new_sequence(admission, self._limits, self._block_size, self._structures)
        sequence.last_touched = self._clock()
        # Cached rows have no logits, of which log-probabilities of the prompt are made.
        if sequence.uses_prefix_cache and not sequence.wants_prompt_logprobs:
            self._reuse_prefix(sequence, admission.cache_salt)
        self._live[sequence.request_id] = sequence
        return sequence.num_cached_tokens

    def _reuse_prefix(self, sequence: Sequence, cache_salt: str) -> None:
        # The last token is always computed, since its logits are wanted.
        max_blocks = (sequence.num_tokens - 1) // self._block_size
        root = self._cache.root(cache_salt)
        blocks, sequence.chain = self._cache.match(root, sequence.tokens.ids, max_blocks)
        sequence.table.append(blocks)
        sequence.num_hashed_blocks = len(blocks)
        sequence.num_cached_tokens = sequence.num_computed = len(blocks) * self._block_size
        self.num_queried_tokens += sequence.num_tokens
        self.num_hit_tokens += sequence.num_cached_tokens

    def last_epoch(self, request_id: str) -> int:
        """The largest epoch of a request that is live or remembered as released; 0 if none is."""
        known = self._live.get(request_id)
        released, _ = self._tombstones.get(request_id, (0, 0.0))
        return released if known is None else max(released, known.epoch)

    def _is_buried(self, admission: SequenceAdmission) -> bool:
        epoch, _ = self._tombstones.get(admission.request_id, (-1, 0.0))
        return admission.epoch <= epoch

    def release(self, ref: SequenceRef) -> None:
        """End an incarnation and older ones; one that is not known yet is remembered."""
        known = self._live.get(ref.request_id)
        if known is not None and known.epoch <= ref.epoch:
            self.drop(known)
        if known is None or known.epoch < ref.epoch:
            epoch, _ = self._tombstones.get(ref.request_id, (-1, 0.0))
            forget_at = self._clock() + self._tombstone_s
            self._tombstones[ref.request_id] = (max(epoch, ref.epoch), forget_at)

    def drop(self, sequence: Sequence) -> None:
        """Remove a live sequence and give its blocks back."""
        del self._live[sequence.request_id]
        self._pool.release(sequence.table.trim(0))

    def touch(self, request_ids: Iterable[str]) -> None:
        """Renew the leases of those that are live."""
        now = self._clock()
        for request_id in request_ids:
            if (sequence := self._live.get(request_id)) is not None:
                sequence.last_touched = now

    def reclaim(self) -> list[str]:
        """Drop sequences whose lease ran out and forget old tombstones; returns the dropped ids."""
        now = self._clock()
        expired = [s for s in self._live.values() if now - s.last_touched > self._lease_s]
        for sequence in expired:
            self.drop(sequence)
        self.num_reclaimed += len(expired)
        for request_id in [r for r, (_, end) in self._tombstones.items() if end <= now]:
            del self._tombstones[request_id]
        return [sequence.request_id for sequence in expired]

    def check(self) -> None:
        """Assert that every reference to a block has one live owner."""
        owners = [0] * self._pool.num_blocks
        for sequence in self._live.values():
            for block in sequence.table.blocks:
                owners[block] += 1
        counts = [self._pool.ref_count(block) for block in range(self._pool.num_blocks)]
        assert owners == counts, "a block has more or fewer references than owners"
        self._pool.check()
