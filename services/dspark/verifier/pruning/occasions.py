"""When a pass is cut, and behind which layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from dspark.verifier.pruning.savings import Savings

# One cut in so many drops nothing, to see what dropping would have lost.
AUDIT_INTERVAL = 16
# So often while it is not known yet what may be dropped.
LEARNING_INTERVAL = 8
# Weight of the latest cut in means over cuts.
_FRESHNESS = 0.1
# Most of a pass's nodes that may turn out to be hopeless: passes for which even this would save
# nothing are not looked at.
_MOST_DROPPED = 0.5


class Occasion(NamedTuple):
    """A cut behind ``layer``; an audit drops nothing."""

    layer: int
    is_audit: bool


class Occasions(Protocol):
    """Decides pass by pass, and hears what came of it."""

    layers: tuple[int, ...]

    def next(self, num_rows: int, num_nodes: int, ready: Sequence[int]) -> Occasion | None:
        """What to do with a pass; only audits before a layer is among the ``ready`` ones."""
        ...

    def is_worth(self, layer: int, num_rows: int, num_kept: int) -> bool:
        """Whether to drop rows, now that their number is known."""
        ...

    def note(self, layer: int, num_nodes: int, num_dropped: int, choosing_ms: float) -> None:
        """A cut, audit or not, would have dropped so many nodes, and took so long to say."""
        ...


class EveryPass:
    """Behind one layer, in every pass with nodes, whatever it saves."""

    def __init__(self, layer: int) -> None:
        self.layers: tuple[int, ...] = (layer,)
        self._num_cuts = 0

    def next(self, num_rows: int, num_nodes: int, ready: Sequence[int]) -> Occasion | None:
        self._num_cuts += 1
        is_turn = self._num_cuts % AUDIT_INTERVAL == 0
        return Occasion(self.layers[0], is_turn or self.layers[0] not in ready)

    def is_worth(self, layer: int, num_rows: int, num_kept: int) -> bool:
        return True

    def note(self, layer: int, num_nodes: int, num_dropped: int, choosing_ms: float) -> None:
        pass


class WhereItPays:
    """Behind the layer that saves most, in passes in which that is more than what is lost.

    A share of ``max_loss`` of the accepted tokens is lost at most, and with it at most that share
    of the pass: so much must be saved.
    """

    def __init__(self, savings: Savings, layers: Sequence[int], max_loss: float) -> None:
        self.layers = tuple(layers)
        self._savings = savings
        self._max_loss = max_loss
        self._num_looks = 0
        self._dropped_share: dict[int, float] = {}
        # Milliseconds a node that it takes to say which nodes are hopeless.
        self._choosing_ms = 0.0

    def next(self, num_rows: int, num_nodes: int, ready: Sequence[int]) -> Occasion | None:
        hopes = self.hopes(num_rows, num_nodes)
        if not hopes:
            return None
        self._num_looks += 1
        unknown = [layer for layer in hopes if layer not in ready]
        turn, rest = divmod(self._num_looks, LEARNING_INTERVAL if unknown else AUDIT_INTERVAL)
        if not rest:
            audited = unknown or hopes
            return Occasion(audited[turn % len(audited)], is_audit=True)
        hopes = [layer for layer in hopes if layer in ready]
        if not hopes:
            return None
        gains = {layer: self._gain_ms(layer, num_rows, num_nodes) for layer in hopes}
        best = max(hopes, key=lambda layer: gains[layer])
        return Occasion(best, is_audit=False) if gains[best] > 0 else None

    def is_worth(self, layer: int, num_rows: int, num_kept: int) -> bool:
        return self._saved_ms(layer, num_rows, num_kept) > 0

    def note(self, layer: int, num_nodes: int, num_dropped: int, choosing_ms: float) -> None:
        share, known = num_dropped / num_nodes, self._dropped_share.get(layer)
        if known is not None:
            share = known + _FRESHNESS * (share - known)
        self._dropped_share[layer] = share
        self._choosing_ms += _FRESHNESS * (choosing_ms / num_nodes - self._choosing_ms)

    def hopes(self, num_rows: int, num_nodes: int) -> list[int]:
        """The layers behind which a cut would gain something if most nodes left."""
        return [
            layer
            for layer in self.layers
            if self._gain_ms(layer, num_rows, num_nodes, _MOST_DROPPED) > 0
        ]

    def _gain_ms(
        self, layer: int, num_rows: int, num_nodes: int, share: float | None = None
    ) -> float:
        """By dropping a share of the nodes; None means the share that mostly leaves."""
        if share is None:
            share = self._dropped_share.get(layer, 0.0)
        saved = self._saved_ms(layer, num_rows, num_rows - share * num_nodes)
        return saved - self._choosing_ms * num_nodes

    def _saved_ms(self, layer: int, num_rows: int, num_kept: float) -> float:
        lost = self._max_loss * self._savings.pass_ms(num_rows)
        return self._savings.saved_ms(layer, num_rows, num_kept) - lost
