"""Log-probabilities as the public gRPC surface has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.token_bytes import Spell
from dspark.logprobs import TokenLogprobs
from dspark.v1 import inference_service_pb2 as pb


def chunk_to_proto(
    chunk: TextChunk, prompt_token_ids: Sequence[int], spell: Spell
) -> pb.GenerateChunk:
    """``prompt_token_ids`` are those of the request."""
    prompt = zip(prompt_token_ids[1:], chunk.prompt_logprobs, strict=False)
    return pb.GenerateChunk(
        text=chunk.text,
        token_ids=chunk.token_ids,
        num_accepted=chunk.num_accepted,
        logprobs=_tokens(zip(chunk.token_ids, chunk.logprobs, strict=False), spell),
        prompt_logprobs=_tokens(prompt, spell),
    )


def _tokens(told: Iterable[tuple[int, TokenLogprobs]], spell: Spell) -> list[pb.TokenLogprobs]:
    """One entry for each token of which something is told."""
    return [
        pb.TokenLogprobs(
            token_id=token_id,
            logprob=logprobs.logprob,
            rank=logprobs.rank,
            bytes=spell(token_id),
            top=[
                pb.TopLogprob(token_id=i, logprob=logprob, bytes=spell(i))
                for i, logprob in zip(logprobs.top_token_ids, logprobs.top_logprobs, strict=True)
            ],
        )
        for token_id, logprobs in told
    ]
