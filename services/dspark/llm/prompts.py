"""The forms in which prompts, conversations and their parameters may be given (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from dspark.errors import InvalidArgument
from dspark.llm.sampling_params import SamplingParams

OnePrompt: TypeAlias = str | Sequence[int] | Mapping[str, Any]
"""A text, token ids, ``{"prompt": text}`` or ``{"prompt_token_ids": ids}``."""

Messages: TypeAlias = Sequence[Mapping[str, Any]]
"""A conversation in OpenAI's shape."""

_FORMS = 'a text, token ids, {"prompt": text} or {"prompt_token_ids": ids}'


def prompts_of(given: OnePrompt | Sequence[OnePrompt]) -> list[str | tuple[int, ...]]:
    """Each prompt as text or token ids; raises InvalidArgument that names the wrong one."""
    if isinstance(given, (str, Mapping)) or _is_token_ids(given):
        return [_prompt(given, "prompts")]
    if not _is_list(given):
        raise InvalidArgument("prompts", f"must be {_FORMS}, or a list of these")
    return [_prompt(each, f"prompts[{i}]") for i, each in enumerate(given)]


def conversations_of(given: Messages | Sequence[Messages]) -> list[Messages]:
    """Each conversation; raises InvalidArgument that names the wrong one."""
    if not _is_list(given):
        raise InvalidArgument("messages", "must be a list of messages, or a list of such lists")
    if given and isinstance(given[0], Mapping):
        return [_messages(given, "messages")]
    return [_messages(each, f"messages[{i}]") for i, each in enumerate(given)]


def params_of(given: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[Any]:
    """The parameters of each of ``count`` prompts; None means the defaults."""
    if given is None or isinstance(given, SamplingParams):
        return [given or SamplingParams()] * count
    if not _is_list(given) or not all(isinstance(each, SamplingParams) for each in given):
        raise InvalidArgument("sampling_params", "must be SamplingParams, or a list of them")
    if len(given) != count:
        raise InvalidArgument("sampling_params", f"has {len(given)} entries for {count} prompts")
    return list(given)


def _prompt(given: Any, name: str) -> str | tuple[int, ...]:
    if isinstance(given, Mapping):
        given = _only_value(given, name)
    if isinstance(given, str):
        return given
    if _is_token_ids(given):
        return tuple(given)
    raise InvalidArgument(name, f"must be {_FORMS}")


def _only_value(given: Mapping[str, Any], name: str) -> Any:
    key = next(iter(given), None)
    if len(given) != 1 or key not in ("prompt", "prompt_token_ids"):
        others = ", ".join(sorted(map(str, set(given) - {"prompt", "prompt_token_ids"})))
        raise InvalidArgument(name, f"{others} cannot be honoured; " * bool(others) + _ONE_KEY)
    if (key == "prompt") != isinstance(given[key], str):
        wanted = "text" if key == "prompt" else "token ids"
        raise InvalidArgument(f"{name}.{key}", f"must be {wanted}")
    return given[key]


_ONE_KEY = "it must have prompt or prompt_token_ids, one of them"


def _messages(given: Any, name: str) -> Messages:
    if not _is_list(given) or not given or not all(isinstance(each, Mapping) for each in given):
        raise InvalidArgument(name, "must be a list of messages that is not empty")
    messages: Messages = given
    return messages


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, (str, bytes, bytearray))


def _is_token_ids(given: Any) -> bool:
    return _is_list(given) and bool(given) and all(type(each) is int for each in given)
