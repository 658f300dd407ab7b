"""The one list of formats of tool calls, and how a model's format is found out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dspark.gateway.parsing import hermes, llama3, mistral
from dspark.gateway.parsing.call_format import CallFormat

FORMATS: Mapping[str, CallFormat] = MappingProxyType(
    {"hermes": hermes.Hermes(), "llama3": llama3.Llama3(), "mistral": mistral.Mistral()}
)
AUTO = "auto"
NONE = "none"
CHOICES = (AUTO, NONE, *FORMATS)
# What only templates or vocabularies of a format have.
_SIGNS = {"hermes": hermes.OPENING, "mistral": mistral.OPENING, "llama3": llama3.TAG}


def format_name(choice: str, template: str, has_token: Callable[[str], bool]) -> str:
    """The format's name, or none; ``auto`` goes by the template, then by the vocabulary."""
    if choice != AUTO:
        return choice
    for name, sign in _SIGNS.items():
        if sign in template:
            return name
    return next((name for name, sign in _SIGNS.items() if has_token(sign)), NONE)
