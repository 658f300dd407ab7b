"""What the calls for proposals were like, counted since the start."""

from __future__ import annotations

from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution


class ProposalBooks:
    """``observe`` is called once a call; everything else reads."""

    def __init__(self) -> None:
        self.seconds = Distribution(buckets.LOOKUP_SECONDS)
        self.num_items = Distribution(buckets.REQUESTS)
        self.num_unknown_items = 0

    def observe(self, seconds: float, num_items: int, num_unknown: int) -> None:
        """Count one call, and how many of its items were of sequences that are not known."""
        self.seconds.observe(seconds)
        self.num_items.observe(num_items)
        self.num_unknown_items += num_unknown
