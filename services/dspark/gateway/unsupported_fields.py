"""Fields that OpenAI or vLLM clients know and this server does not honour.

Each has the values that change nothing: those are accepted, any other is an error naming the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dspark.errors import UnsupportedField

Neutral = Mapping[str, tuple[Any, ...]]


def _table(*parts: Mapping[str, tuple[Any, ...]], names: str = "") -> Neutral:
    """Fields with their neutral values besides null; ``names`` have none but null."""
    table: dict[str, tuple[Any, ...]] = dict.fromkeys(names.split(), ())
    for part in parts:
        table.update(part)
    return MappingProxyType(table)


_SHARED = _table(
    {
        "length_penalty": (1,),
        "use_beam_search": (False,),
        "early_stopping": (False,),
        "add_special_tokens": (False,),
        "return_tokens_as_token_ids": (False,),
        "logits_processors": ([],),
    },
    names=(
        "guided_decoding_backend guided_whitespace_pattern structural_tag "
        "truncate_prompt_tokens request_id kv_transfer_params vllm_xargs "
        "mm_processor_kwargs prompt_embeds"
    ),
)
COMPLETION = _table(_SHARED, {"suffix": ("",)})
CHAT = _table(
    _SHARED,
    {
        "echo": (False,),
        "modalities": (["text"],),
        "store": (False,),
        "metadata": ({},),
    },
    names=(
        "best_of audio prediction reasoning verbosity "
        "web_search_options safety_identifier prompt_cache_key prompt_cache_retention"
    ),
)
STRUCTURED_OUTPUTS = _table(
    {"disable_fallback": (False,), "disable_additional_properties": (False,)},
    names="whitespace_pattern structural_tag",
)
STREAM_OPTIONS = _table({"include_obfuscation": (False,)})
RESPONSES = _table(
    _SHARED,
    {
        "store": (False,),
        "background": (False,),
        "truncation": ("disabled",),
        "include": ([],),
        "top_logprobs": (0,),
        "n": (1,),
        "stream_options": ({}, {"include_obfuscation": False}),
        "return_token_ids": (False,),
        "echo": (False,),
        "max_tokens": (),
    },
    names=(
        "best_of response_format structured_outputs "
        "guided_json guided_regex guided_choice guided_grammar "
        "previous_response_id conversation prompt max_tool_calls safety_identifier logprobs "
        "prompt_cache_key prompt_cache_retention context_management moderation prompt_logprobs"
    ),
)
_STATUS = {"status": ("completed", "incomplete", "in_progress")}
RESPONSES_ITEM = _table(_STATUS, names="phase")
RESPONSES_CALL = _table(_STATUS, names="caller namespace")
RESPONSES_REASONING = _table(_STATUS, {"summary": ([],), "encrypted_content": ("",)})
RESPONSES_THINKING = _table(names="summary generate_summary context mode")
RESPONSES_TEXT = _table(names="verbosity")
RESPONSES_PART = _table({"annotations": ([],), "logprobs": ([],)})
MESSAGE = _table({"annotations": ([],)}, names="refusal audio")
RESPONSES_TOOL = _table({"defer_loading": (False,)}, names="allowed_callers output_schema async")
CONTENT_PART = _table(
    names="image_url input_audio video_url audio_url file refusal cache_control annotations"
)


def drop_neutral(fields: Mapping[str, Any], table: Neutral, path: str = "") -> dict[str, Any]:
    """The fields without those of the table; raises UnsupportedField for one not neutral."""
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in table:
            kept[name] = value
            continue
        if value is not None and not _is_neutral(value, table[name]):
            raise UnsupportedField(path + name)
    return kept


def _is_neutral(value: Any, neutral: tuple[Any, ...]) -> bool:
    # True == 1 in Python, but not in JSON.
    return any(
        value == other and isinstance(value, bool) == isinstance(other, bool) for other in neutral
    )
