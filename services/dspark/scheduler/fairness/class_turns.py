"""Interactive requests go first, and batch requests get their share of tokens all the same."""

from __future__ import annotations

from collections.abc import Collection

from dspark.request_class import RequestClass

# Tokens that batch requests can be owed: more would come as a burst once they may enter again.
MAX_CREDIT = 8192.0


class ClassTurns:
    """``share`` is that of batch requests while both classes wait, above 0 and below 1."""

    def __init__(self, share: float) -> None:
        self._rate = share / (1 - share)
        self._credit = 0.0

    def first(self, waiting: Collection[RequestClass]) -> RequestClass:
        """Whose turn it is of those that wait, of which there is at least one."""
        if RequestClass.INTERACTIVE not in waiting:
            return RequestClass.BATCH
        is_due = RequestClass.BATCH in waiting and self._credit > 0
        return RequestClass.BATCH if is_due else RequestClass.INTERACTIVE

    def took(
        self, request_class: RequestClass, tokens: float, waiting: Collection[RequestClass]
    ) -> None:
        """A request was admitted while requests of these classes waited, its own included."""
        if RequestClass.BATCH not in waiting:
            self._credit = 0.0
        elif request_class is RequestClass.INTERACTIVE:
            self._credit = min(self._credit + tokens * self._rate, MAX_CREDIT)
        elif RequestClass.INTERACTIVE in waiting:
            self._credit -= tokens
