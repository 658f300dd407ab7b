"""What an offline LLM gives, in the shape of vLLM's RequestOutput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspark.client import Completion, TokenLogprobs, ToolCall
from dspark.sampling import SpeculationStats


@dataclass(frozen=True, slots=True)
class Logprob:
    """How likely a token was; ``rank`` is 1 for the most likely one.

    ``decoded_token`` has a replacement character for a token that is a part of a character.
    """

    logprob: float
    rank: int
    decoded_token: str


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One generated text; ``seed`` with the same prompt and parameters gives it again.

    ``logprobs`` has for each token an object by token id, ``cumulative_logprob`` their sum over the
    generated tokens; both are None unless asked for. ``finish_reason`` is "stop" or "length",
    ``stop_reason`` the stop string or stop token id, else None. ``text`` has neither ``reasoning``
    nor ``tool_calls``, where the LLM was told to tell them apart.
    """

    index: int
    text: str
    token_ids: tuple[int, ...]
    cumulative_logprob: float | None
    logprobs: tuple[dict[int, Logprob], ...] | None
    finish_reason: str
    stop_reason: str | int | None
    seed: int
    speculation: SpeculationStats
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """A prompt and its ``n`` outputs; ``prompt`` is None where only token ids were given.

    ``prompt_logprobs`` is None unless asked for, and None for the prompt's first token.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    prompt_logprobs: tuple[dict[int, Logprob] | None, ...] | None
    outputs: tuple[CompletionOutput, ...]
    num_cached_tokens: int
    finished: bool = True


def request_output(
    prompt: str | None,
    token_ids: Sequence[int],
    completions: Sequence[Completion],
    *,
    has_logprobs: bool,
    has_prompt_logprobs: bool,
) -> RequestOutput:
    """Of all the completions of a prompt; the flags say what was asked for."""
    first = completions[0]
    of_prompt = (None, *map(_by_token, first.prompt_logprobs)) if has_prompt_logprobs else None
    return RequestOutput(
        request_id=first.request_id,
        prompt=prompt,
        prompt_token_ids=tuple(token_ids),
        prompt_logprobs=of_prompt,
        outputs=tuple(_output(i, each, has_logprobs) for i, each in enumerate(completions)),
        num_cached_tokens=first.usage.cached_tokens,
    )


def _output(index: int, completion: Completion, has_logprobs: bool) -> CompletionOutput:
    told = completion.logprobs
    return CompletionOutput(
        index=index,
        text=completion.text,
        token_ids=completion.token_ids,
        cumulative_logprob=sum(each.logprob for each in told) if has_logprobs else None,
        logprobs=tuple(map(_by_token, told)) if has_logprobs else None,
        finish_reason=completion.finish_reason.value,
        stop_reason=completion.stop_reason,
        seed=completion.seed,
        speculation=completion.speculation,
        reasoning=completion.reasoning,
        tool_calls=completion.tool_calls,
    )


def _by_token(told: TokenLogprobs) -> dict[int, Logprob]:
    """The token itself, then the likeliest ones in its place, by token id."""
    entries = {told.token_id: Logprob(told.logprob, told.rank, _text(told.data))}
    for rank, top in enumerate(told.top, 1):
        entries.setdefault(top.token_id, Logprob(top.logprob, rank, _text(top.data)))
    return entries


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
