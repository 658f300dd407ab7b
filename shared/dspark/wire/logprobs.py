"""Log-probabilities on the wire between services: flat arrays."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.logprobs import TokenLogprobs
from dspark.v1 import sampling_pb2 as pb


def logprobs_to_proto(logprobs: Sequence[TokenLogprobs]) -> pb.Logprobs | None:
    """None for no tokens; all have equally many most likely ones."""
    if not logprobs:
        return None
    return pb.Logprobs(
        logprobs=[token.logprob for token in logprobs],
        ranks=[token.rank for token in logprobs],
        num_top=len(logprobs[0].top_token_ids),
        top_token_ids=[i for token in logprobs for i in token.top_token_ids],
        top_logprobs=[value for token in logprobs for value in token.top_logprobs],
    )


def logprobs_from_proto(message: pb.Logprobs) -> tuple[TokenLogprobs, ...]:
    count = message.num_top
    top_ids, top_values = tuple(message.top_token_ids), tuple(message.top_logprobs)
    return tuple(
        TokenLogprobs(
            logprob,
            rank,
            top_ids[place * count : (place + 1) * count],
            top_values[place * count : (place + 1) * count],
        )
        for place, (logprob, rank) in enumerate(zip(message.logprobs, message.ranks, strict=True))
    )
