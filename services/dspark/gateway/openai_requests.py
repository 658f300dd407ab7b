"""JSON objects of the OpenAI surface to client requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dspark.errors import InvalidArgument
from dspark.gateway import unsupported_fields
from dspark.gateway.client_request import ClientRequest, Prompt, TextPrompt, TokenPrompt
from dspark.gateway.field_path import field_path
from dspark.gateway.openai_chat import chat_prompt, clean_message, clean_tool
from dspark.gateway.openai_chat_types import ChatBody
from dspark.gateway.openai_types import CommonFields, CompletionBody, SpeculationOptions
from dspark.gateway.service_tier import class_of_tier
from dspark.gateway.structured_fields import structure_wish
from dspark.gateway.text_assembly import TextOptions
from dspark.gateway.unicode_text import LONE_SURROGATE
from dspark.gateway.unsupported_fields import drop_neutral
from dspark.sampling import SpeculationParams
from dspark.sampling_limits import MAX_TOP_LOGPROBS

Body = TypeVar("Body", bound=BaseModel)
# Where pydantic's own words speak of Python, not of JSON.
_PROBLEMS = {
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "int_type": "must be an integer",
    "list_type": "must be a list",
    "missing": "is required",
    "string_type": "must be a string",
    "too_short": "must have at least one item",
    "extra_forbidden": "is not a known field",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "string_unicode": LONE_SURROGATE,
}

# Objects inside a body that have fields of the kind themselves.
_NESTED = {
    "stream_options": unsupported_fields.STREAM_OPTIONS,
    "structured_outputs": unsupported_fields.STRUCTURED_OUTPUTS,
}


def parse_completion(fields: Mapping[str, Any]) -> CompletionBody:
    """Raises InvalidArgument or UnsupportedField that names the field."""
    kept = drop_neutral(fields, unsupported_fields.COMPLETION)
    body = validated(CompletionBody, _without_nested_extras(kept))
    n = num_choices(body)
    if n < 1:
        raise InvalidArgument("n", "must be at least 1")
    if body.best_of is not None and body.best_of < n:
        raise InvalidArgument("best_of", "must be at least n")
    if _is_ranked(body) and body.stream:
        raise InvalidArgument("best_of", "above n needs stream to be false")
    return body


def num_choices(body: CommonFields) -> int:
    """Of each prompt."""
    return 1 if body.n is None else body.n


def _is_ranked(body: CompletionBody) -> bool:
    """Whether more is drawn than answered."""
    return (body.best_of or 0) > num_choices(body)


def parse_chat(fields: Mapping[str, Any]) -> ChatBody:
    """Raises InvalidArgument or UnsupportedField that names the field."""
    kept = _without_nested_extras(drop_neutral(fields, unsupported_fields.CHAT))
    for name, clean in (("messages", clean_message), ("tools", clean_tool)):
        if isinstance(values := kept.get(name), list):
            kept[name] = [clean(value, f"{name}[{i}]") for i, value in enumerate(values)]
    body = validated(ChatBody, kept)
    for index, message in enumerate(body.messages):
        message.check(f"messages[{index}]")
    if None not in (body.max_tokens, body.max_completion_tokens):
        if body.max_tokens != body.max_completion_tokens:
            raise InvalidArgument("max_completion_tokens", "contradicts max_tokens")
    return body


def completion_request(body: CompletionBody, request_id: str, index: int = 0) -> ClientRequest:
    """The request for the prompt at ``index``."""
    label = "prompt" if len(body.prompt) == 1 else f"prompt[{index}]"
    given = body.prompt[index]
    prompt: Prompt
    prompt = TextPrompt(given, label) if isinstance(given, str) else TokenPrompt(given, label)
    client = client_request(body, prompt, body.max_tokens, request_id)
    is_ranked = _is_ranked(body)
    return replace(client, logprobs=body.logprobs, echo=bool(body.echo), is_ranked=is_ranked)


def chat_request(body: ChatBody, request_id: str) -> ClientRequest:
    max_tokens = (
        body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    )
    client = client_request(body, chat_prompt(body), max_tokens, request_id)
    return replace(client, logprobs=_chat_logprobs(body))


def _chat_logprobs(body: ChatBody) -> int | None:
    num_top = body.top_logprobs or 0
    if not 0 <= num_top <= MAX_TOP_LOGPROBS:
        raise InvalidArgument("top_logprobs", f"must be from 0 to {MAX_TOP_LOGPROBS}")
    if num_top and not body.logprobs:
        raise InvalidArgument("top_logprobs", "needs logprobs to be true")
    return num_top if body.logprobs else None


def client_request(
    body: CommonFields, prompt: Prompt, max_tokens: int | None, request_id: str
) -> ClientRequest:
    """What both kinds of bodies share, for one prompt."""
    if body.stream_options is not None and not body.stream:
        raise InvalidArgument("stream_options", "needs stream to be true")
    if body.prompt_logprobs is not None and body.stream:
        raise InvalidArgument("prompt_logprobs", "needs stream to be false")
    if body.stream_options is not None and body.stream_options.continuous_usage_stats:
        if not body.stream_options.include_usage:
            name = "stream_options.continuous_usage_stats"
            raise InvalidArgument(name, "needs include_usage to be true")
    return ClientRequest(
        request_id=request_id,
        prompt=prompt,
        model=body.model,
        temperature=body.temperature,
        top_k=body.top_k,
        top_p=body.top_p,
        min_p=body.min_p,
        seed=body.seed,
        max_tokens=max_tokens,
        stop_token_ids=tuple(body.stop_token_ids or ()),
        ignore_eos=body.ignore_eos,
        repetition_penalty=body.repetition_penalty,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        logit_bias=body.logit_bias,
        bad_word_texts=body.bad_words,
        allowed_token_ids=tuple(body.allowed_token_ids or ()),
        min_tokens=body.min_tokens,
        prompt_logprobs=body.prompt_logprobs,
        stop_strings=body.stop,
        speculation=_speculation(body.speculation),
        cache_salt=body.cache_salt or "",
        priority=body.priority or 0,
        use_prefix_cache=body.use_prefix_cache,
        request_class=class_of_tier(body.service_tier),
        user=body.user or "",
        structure=structure_wish(body),
        text=TextOptions(
            include_stop=bool(body.include_stop_str_in_output),
            keep_special_tokens=body.skip_special_tokens is False,
        ),
    )


def _speculation(options: SpeculationOptions | None) -> SpeculationParams:
    if options is None:
        return SpeculationParams()
    return SpeculationParams(
        enabled=options.enabled is not False,
        sources=tuple(options.sources or ()),
        max_draft_tokens=options.max_draft_tokens,
        policy=options.policy or "",
    )


def _without_nested_extras(fields: dict[str, Any]) -> dict[str, Any]:
    for name, table in _NESTED.items():
        options = fields.get(name)
        if isinstance(options, dict):
            fields[name] = drop_neutral(options, table, f"{name}.")
    return fields


def validated(
    body_type: type[Body], fields: dict[str, Any], at: tuple[int | str, ...] = ()
) -> Body:
    """Raises InvalidArgument that names the field; ``at`` is where in the body ``fields`` are."""
    for name in fields:
        # Apart, because a body may have any number of them.
        if name not in body_type.model_fields:
            raise InvalidArgument(field_path((*at, name)), _PROBLEMS["extra_forbidden"])
    try:
        return body_type.model_validate(fields)
    except ValidationError as error:
        # A union reports one error per member; the deepest is about what the client meant.
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        problem = max(problems, key=lambda e: len(_names(e["loc"])))
        message = _PROBLEMS.get(problem["type"], problem["msg"])
        raise InvalidArgument(field_path((*at, *_names(problem["loc"]))), message) from None


# Fields of which a value may be of several kinds.
_UNIONS = ("content", "input", "json", "output")


def _names(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The location without pydantic's names for the members of a union, such as text or a list."""
    return tuple(
        part
        for before, part in zip(("", *location), location, strict=False)
        if not (before in _UNIONS and isinstance(part, str))
    )
