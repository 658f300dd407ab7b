"""How much a model is to think before it answers, as its chat template may read it (pure)."""

from __future__ import annotations

from typing import Any

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway.chat_template import TemplateText
from dspark.gateway.client_request import ChatPrompt

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_EFFORT = "reasoning_effort"
# By these templates leave reasoning out.
_SWITCHES = ("enable_thinking", "thinking")


def effort_variables(prompt: ChatPrompt, template: TemplateText) -> dict[str, Any]:
    """The template's variables that say so; none where the prompt leaves it to the template.

    Raises UnsupportedField where the template reads none of them.
    """
    effort, field = prompt.reasoning_effort, f"{prompt.path}{prompt.effort_name}"
    if effort is None:
        return {}
    if effort not in EFFORTS:
        raise InvalidArgument(field, f"must be one of {', '.join(EFFORTS)}")
    wanted: dict[str, Any] = {_EFFORT: effort}
    if effort == "none":
        wanted |= dict.fromkeys(_SWITCHES, False)
    read = {name: value for name, value in wanted.items() if name in template.variables}
    if not read:
        is_switched = any(name in template.variables for name in _SWITCHES)
        problem = "can only be none with" if is_switched else "is not read by"
        raise UnsupportedField(field, f"{problem} this model's chat template")
    for name, value in read.items():
        if prompt.template_variables.get(name, value) != value:
            raise InvalidArgument(field, f"contradicts chat_template_kwargs.{name}")
    return read
