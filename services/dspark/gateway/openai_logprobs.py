"""Log-probabilities as the OpenAI surface and vLLM write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dspark.gateway.token_bytes import Spell, is_whole, token_text
from dspark.logprobs import TokenLogprobs

# JSON has no infinity: what cannot be drawn has this value, as in OpenAI's own replies.
LEAST_LOGPROB = -9999.0


@dataclass(frozen=True, slots=True)
class ToldToken:
    """A token of the answer, where its text begins in the answer's, and how likely it was.

    ``logprobs`` is None for the first token of a prompt, before which there is nothing.
    """

    token_id: int
    offset: int
    logprobs: TokenLogprobs | None


def chat_logprobs(tokens: Iterable[ToldToken], spell: Spell) -> dict[str, Any]:
    """``choice.logprobs`` of a chat completion."""
    content = []
    for token in tokens:
        assert token.logprobs is not None
        content.append(
            {
                **_chat_token(token.token_id, token.logprobs.logprob, spell),
                "top_logprobs": [_chat_token(i, x, spell) for i, x in _top(token.logprobs)],
            }
        )
    return {"content": content, "refusal": None}


def completion_logprobs(tokens: Sequence[ToldToken], spell: Spell) -> dict[str, Any]:
    """``choice.logprobs`` of a text completion; the token itself is among the likely ones."""
    told = [token.logprobs for token in tokens]
    return {
        "tokens": [_completion_text(spell(token.token_id)) for token in tokens],
        "token_logprobs": [None if each is None else _finite(each.logprob) for each in told],
        "top_logprobs": [_likely(token, spell) for token in tokens],
        "text_offset": [token.offset for token in tokens],
    }


def prompt_logprobs(
    token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs], num_top: int, spell: Spell
) -> list[dict[str, Any] | None]:
    """vLLM's ``prompt_logprobs``: for each token of the prompt the likely ones and itself, by id;
    null for the first. ``logprobs`` begin with the second token.
    """
    entries: list[dict[str, Any] | None] = [None]
    for token_id, told in zip(token_ids[1:], logprobs, strict=True):
        ranked = [(i, x, rank) for rank, (i, x) in enumerate(_top(told), start=1)]
        entry = {str(i): _vllm_token(i, x, rank, spell) for i, x, rank in ranked[:num_top]}
        entry[str(token_id)] = _vllm_token(token_id, told.logprob, told.rank, spell)
        entries.append(entry)
    return entries


def _top(told: TokenLogprobs) -> Iterable[tuple[int, float]]:
    return zip(told.top_token_ids, told.top_logprobs, strict=True)


def _chat_token(token_id: int, logprob: float, spell: Spell) -> dict[str, Any]:
    data = spell(token_id)
    return {"token": token_text(data), "logprob": _finite(logprob), "bytes": list(data)}


def _vllm_token(token_id: int, logprob: float, rank: int, spell: Spell) -> dict[str, Any]:
    text = token_text(spell(token_id))
    return {"logprob": _finite(logprob), "rank": rank, "decoded_token": text}


def _likely(token: ToldToken, spell: Spell) -> dict[str, float] | None:
    if token.logprobs is None:
        return None
    likely: dict[str, float] = {}
    for token_id, logprob in (*_top(token.logprobs), (token.token_id, token.logprobs.logprob)):
        # Of two tokens that read the same the likelier one is told.
        likely.setdefault(_completion_text(spell(token_id)), _finite(logprob))
    return likely


def _completion_text(data: bytes) -> str:
    return token_text(data) if is_whole(data) else f"bytes:{token_text(data)}"


def _finite(logprob: float) -> float:
    return max(logprob, LEAST_LOGPROB)
