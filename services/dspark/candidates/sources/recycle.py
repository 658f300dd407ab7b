"""``recycle``: the target's own top-k successors, token by token (Token Recycling,
arXiv:2408.08696).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.best_first import grow
from dspark.candidates.keyed_draws import draws_of
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, SourceVitals
from dspark.proposal import Successors
from dspark.token_tree import TokenTree

# Probability that the successor of each rank is the next token, where no other source says so too.
# Measured on greedy text of a small chat model; the acceptance length changes by less than 1 % when
# the first is anything from 0.25 to 0.35.
RANK_SCORES = (0.30, 0.10, 0.05, 0.03, 0.02, 0.015, 0.015, 0.015)
# Token ids above this are garbage: the table must not grow to them.
MAX_TOKEN_ID = 1 << 20
MAX_TENANTS = 64
UNKNOWN = -1


class SuccessorTable:
    """Token id to its last observed successors, most likely first."""

    def __init__(self, top_k: int) -> None:
        # [known ids, top_k]; UNKNOWN where none was observed
        self._rows: NDArray[np.int32] = np.full((0, top_k), UNKNOWN, dtype=np.int32)

    def __len__(self) -> int:
        """Token ids that have a row, whether or not it was observed."""
        return len(self._rows)

    def observe(self, row_token_ids: Sequence[int], top_token_ids: Sequence[int]) -> None:
        """Overwrite the rows' successors; a row observed twice keeps the later ones."""
        if not row_token_ids:
            return
        rows = np.asarray(row_token_ids, dtype=np.int64)
        tops = np.asarray(top_token_ids, dtype=np.int64).reshape(len(rows), -1)
        sound = (
            (rows >= 0) & (rows < MAX_TOKEN_ID) & (tops >= 0).all(1) & (tops < MAX_TOKEN_ID).all(1)
        )
        if not sound.all():
            rows, tops = rows[sound], tops[sound]
        if not len(rows):
            return
        self._grow(int(rows.max()) + 1)
        width = min(self._rows.shape[1], tops.shape[1])
        self._rows[rows, :width] = tops[:, :width]
        self._rows[rows, width:] = UNKNOWN

    def successors(self, token_id: int) -> list[int]:
        """top_k token ids, -1 where none was observed."""
        if not 0 <= token_id < len(self._rows):
            return []
        successors: list[int] = self._rows[token_id].tolist()
        return successors

    def _grow(self, size: int) -> None:
        if size <= len(self._rows):
            return
        grown = np.full(
            (max(size, 2 * len(self._rows)), self._rows.shape[1]), UNKNOWN, dtype=np.int32
        )
        grown[: len(self._rows)] = self._rows
        self._rows = grown


class RecycleSource(CandidateSource):
    """A best-first tree over the successor table of the request's tenant.

    Of too many tenants the one that was longest without an observation loses its table.
    """

    name = "recycle"
    top_k = len(RANK_SCORES)

    def __init__(self) -> None:
        self._tables: OrderedDict[str, SuccessorTable] = OrderedDict()

    def observe(self, successors: Successors) -> None:
        table = self._tables.get(successors.cache_salt)
        if table is None:
            table = self._tables[successors.cache_salt] = SuccessorTable(self.top_k)
            if len(self._tables) > MAX_TENANTS:
                self._tables.popitem(last=False)
        self._tables.move_to_end(successors.cache_salt)
        table.observe(successors.row_token_ids, successors.top_token_ids)

    def vitals(self) -> SourceVitals:
        return SourceVitals(sum(map(len, list(self._tables.values()))))

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        return [self._propose_one(request) for request in requests]

    def _propose_one(self, request: DraftRequest) -> TokenTree:
        table = self._tables.get(request.sequence.cache_salt)
        if table is None:
            return TokenTree()

        def expand(token_id: int, depth: int) -> Iterator[tuple[int, float, int]]:
            for successor, score in zip(table.successors(token_id), RANK_SCORES, strict=False):
                if successor != UNKNOWN:
                    yield successor, score, successor

        anchor = request.sequence.token_ids[-1]
        grown = grow(
            anchor,
            expand,
            max_nodes=request.max_nodes,
            min_survival=request.floor,
            max_depth=request.max_depth,
            draws=draws_of(request.sequence),
        )
        return grown.to_tree(self.name)
