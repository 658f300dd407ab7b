"""One prompt and its parameters, asked of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dspark.client import AsyncClient, ChatOptions, GenerateOptions, Prompt, RequestClass
from dspark.llm.outputs import RequestOutput, request_output
from dspark.llm.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class OfflineRequest:
    """``layout`` says how a conversation becomes a prompt."""

    prompt: Prompt
    params: SamplingParams
    layout: ChatOptions = field(default_factory=ChatOptions)


async def ask(client: AsyncClient, request: OfflineRequest, max_model_len: int) -> RequestOutput:
    """Raises a DSparkError where the server refuses the request or fails."""
    params = request.params
    text, token_ids = await _prompt_of(client, request)
    options: GenerateOptions = {**params.client_options(), **request.layout}
    if params.max_tokens is None:
        # A prompt that leaves no room is refused by its own name.
        options["max_tokens"] = max(1, max_model_len - len(token_ids))
    if request.layout.get("tools"):
        options["whole_tool_calls"] = True
    # Nobody waits for single tokens of a batch.
    options["request_class"] = RequestClass.BATCH
    completions = await client.generate_choices(request.prompt, params.n, **options)
    return request_output(
        text,
        token_ids,
        completions,
        has_logprobs=params.logprobs is not None,
        has_prompt_logprobs=params.prompt_logprobs is not None,
    )


async def _prompt_of(
    client: AsyncClient, request: OfflineRequest
) -> tuple[str | None, Sequence[int]]:
    """The prompt's text, None if only token ids were given, and its token ids."""
    prompt: Any = request.prompt
    if not isinstance(prompt, str) and isinstance(prompt[0], int):
        return None, prompt
    token_ids = (await client.tokenize(prompt, **request.layout)).token_ids
    return prompt if isinstance(prompt, str) else await client.detokenize(token_ids), token_ids
