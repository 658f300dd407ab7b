"""What a conversation asks of its chat template, checked against what the template reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway.chat_messages import template_messages
from dspark.gateway.chat_template import TemplateText
from dspark.gateway.client_request import ChatPrompt
from dspark.gateway.field_path import field_path
from dspark.gateway.reasoning_effort import effort_variables
from dspark.gateway.tool_choice import Tool
from dspark.gateway.unicode_text import LONE_SURROGATE, is_text

VARIABLES = "chat_template_kwargs"
# Names that have fields of their own, or that mean something else elsewhere.
_RESERVED = frozenset(
    "messages tools documents add_generation_prompt continue_final_message chat_template tokenize "
    "return_dict tokenizer".split()
)


def template_arguments(
    prompt: ChatPrompt, template: TemplateText, tools: Sequence[Tool]
) -> dict[str, Any]:
    """The arguments of ``ChatTemplate.render``, as JSON values.

    Raises UnsupportedField for what the template would not read, InvalidArgument for what
    contradicts itself.
    """
    generates = prompt.add_generation_prompt
    if prompt.continue_final_message and generates:
        raise InvalidArgument(
            f"{prompt.path}continue_final_message", "contradicts add_generation_prompt"
        )
    asked: dict[str, Any] = {
        "tools": [tool.definition() for tool in tools] or None,
        "documents": [dict(document) for document in prompt.documents] or None,
    }
    for name, value in asked.items():
        if value is not None:
            _check_is_read(name, template, prompt.path)
            _check_text(value, (name,), prompt.path)
    if generates is False:
        _check_is_read("add_generation_prompt", template, prompt.path)
    return {
        **asked,
        "messages": template_messages(prompt.messages, template.source),
        "variables": _variables(prompt, template) | effort_variables(prompt, template),
        "add_generation_prompt": generates is not False and not prompt.continue_final_message,
        "continue_final_message": prompt.continue_final_message,
    }


def _variables(prompt: ChatPrompt, template: TemplateText) -> dict[str, Any]:
    path = prompt.path + VARIABLES
    for name in prompt.template_variables:
        field = field_path((path, name))
        if name in _RESERVED:
            raise InvalidArgument(field, "cannot be set here")
        if name not in template.variables:
            raise UnsupportedField(field, "is not read by the chat template")
    _check_text(prompt.template_variables, (VARIABLES,), prompt.path)
    return dict(prompt.template_variables)


def _check_is_read(name: str, template: TemplateText, path: str) -> None:
    if name not in template.variables:
        raise UnsupportedField(path + name, "is not read by this model's chat template")


def _check_text(value: Any, location: tuple[int | str, ...], path: str) -> None:
    """Raises InvalidArgument for a string inside ``value`` that is no Unicode text."""
    places = [(location, value)]
    while places:
        at, value = places.pop()
        if isinstance(value, str) and not is_text(value):
            raise InvalidArgument(path + field_path(at), LONE_SURROGATE)
        if isinstance(value, Mapping):
            places += [((*at, key), inner) for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            places += [((*at, index), inner) for index, inner in enumerate(value)]
