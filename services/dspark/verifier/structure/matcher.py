"""The seam to what follows a grammar token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray


class MatcherFailed(Exception):
    """The grammar does not allow a token, or a limit was reached; the matcher is of no more use."""


class Matcher(Protocol):
    """A place in a grammar. What it says depends on the tokens that were consumed alone."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing may follow."""
        ...

    def consume(self, token_ids: Sequence[int]) -> None:
        """Go on by tokens; raises MatcherFailed."""
        ...

    def rollback(self, num_tokens: int) -> None:
        """Go back to before the last ``num_tokens``."""
        ...

    def allows(self, token_id: int) -> bool:
        """Whether a token may follow."""
        ...

    def forced(self) -> Sequence[int]:
        """The tokens that must follow; empty where there is a choice, or more than one spelling."""
        ...

    def mask(self, vocab_size: int) -> NDArray[np.bool_]:
        """[vocab_size] which tokens may follow; raises MatcherFailed."""
        ...

    def fork(self) -> Self:
        """Another one at the same place."""
        ...
