"""The chat templates of a model's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspark.gateway.chat_template import ChatTemplate
from dspark.gateway.tokenizer import read_json

_TOOL_USE = "tool_use"


@dataclass(frozen=True, slots=True)
class ChatTemplates:
    """A model's template, and the one for conversations with tools where it has one apart."""

    default: ChatTemplate
    tool_use: ChatTemplate | None = None

    def for_tools(self, has_tools: bool) -> ChatTemplate:
        return self.tool_use if has_tools and self.tool_use is not None else self.default


def load_chat_templates(model_dir: Path, tokens: Mapping[str, str]) -> ChatTemplates | None:
    """chat_template.jinja and additional_chat_templates, else those of tokenizer_config.json.

    Raises ValueError that names what is broken.
    """
    sources = _sources(model_dir)
    if "default" not in sources:
        return None
    tool_use = sources.get(_TOOL_USE)
    return ChatTemplates(
        ChatTemplate(sources["default"], tokens),
        None if tool_use is None else ChatTemplate(tool_use, tokens),
    )


def load_chat_template(model_dir: Path, tokens: Mapping[str, str]) -> ChatTemplate | None:
    """The template for conversations without tools."""
    templates = load_chat_templates(model_dir, tokens)
    return None if templates is None else templates.default


def _sources(model_dir: Path) -> dict[str, str]:
    path = model_dir / "chat_template.jinja"
    if path.is_file():
        sources = {"default": path.read_text(encoding="utf-8")}
        more = model_dir / "additional_chat_templates" / f"{_TOOL_USE}.jinja"
        if more.is_file():
            sources[_TOOL_USE] = more.read_text(encoding="utf-8")
        return sources
    for name in ("chat_template.json", "tokenizer_config.json"):
        sources = _declared(read_json(model_dir / name).get("chat_template"))
        if sources:
            return sources
    return {}


def _declared(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {"default": value}
    entries = value if isinstance(value, list) else []
    named = {e.get("name"): e.get("template") for e in entries if isinstance(e, dict)}
    return {
        name: source
        for name, source in named.items()
        if isinstance(name, str) and isinstance(source, str)
    }
