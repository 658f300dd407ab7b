"""What simulated candidates guess, and which guesses are right.

The text of a simulated request is one token again and again, so a guess is right if it is that
token; what differs between texts and sources is how often it is. By the first promise nothing else
of a text matters to the speed of decoding.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from dspark.proposal import SourceRate
from dspark.token_tree import TokenTree

# The token that the target draws at each place; all from FIRST_WRONG on are wrong guesses.
RIGHT = 1
FIRST_WRONG = 2


def text_of(request_id: str) -> int:
    """The text of a simulated request, which is called ``r`` and its number."""
    return int(request_id[1:])


class Place(NamedTuple):
    """Where a tree is to grow: which text, by the request's number, and how far into it."""

    text: int
    num_prompt_tokens: int
    num_generated_tokens: int


class Guesses(Protocol):
    """Trees of guesses by place, the same ones whoever asks and however often."""

    @property
    def sources(self) -> tuple[str, ...]: ...

    @property
    def rates(self) -> tuple[SourceRate, ...]:
        """What sources say that they cost."""
        ...

    def tree(
        self, place: Place, sources: Collection[str], max_nodes: int, max_depth: int
    ) -> TokenTree:
        """What these sources guess together; the empty tree if they know nothing."""
        ...
