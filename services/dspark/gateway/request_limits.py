"""How large the parts of a request may be: checked before anything looks into them (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dspark.errors import InvalidArgument

_CONVERSATIONS = ("messages", "input", "tools")
_LISTS = ("bad_words", "stop_token_ids")
_GRAMMARS = (
    "response_format",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structural_tag",
    "text",
    "tools",
    "functions",
    "chat_template",
    "chat_template_kwargs",
)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """``max_choices`` bounds n, the others each field that they are about."""

    max_choices: int
    max_stop_strings: int
    max_bias_entries: int
    max_grammar_chars: int
    max_messages: int

    def check_n(self, n: Any, field: str = "n") -> None:
        """Raises InvalidArgument for a number above the limit; other values are not judged."""
        if type(n) is int and n > self.max_choices:
            raise InvalidArgument(field, f"may be at most {self.max_choices}")

    def check_bias(self, field: str, num_entries: int) -> None:
        _check_count(field, num_entries, self.max_bias_entries, "entries")

    def check_turns(self, field: str, num_turns: int) -> None:
        """Of a conversation, or of the tools that it offers."""
        _check_count(field, num_turns, self.max_messages, "items")

    def check_grammar(self, field: str, value: Any) -> None:
        """``value`` is text, or what JSON makes of an object."""
        if is_larger(value, self.max_grammar_chars):
            limit = self.max_grammar_chars
            raise InvalidArgument(field, f"is too large; the limit is {limit} characters")

    def _check_prompts(self, prompt: Any) -> None:
        if isinstance(prompt, list) and prompt and type(prompt[0]) is not int:
            _check_count("prompt", len(prompt), self.max_choices, "prompts")

    def check(self, fields: Mapping[str, Any]) -> None:
        """Raises InvalidArgument that names the field of a JSON body that is over a limit."""
        for name in ("n", "best_of"):
            self.check_n(fields.get(name), name)
        self._check_prompts(fields.get("prompt"))
        stop = fields.get("stop")
        if isinstance(stop, list):
            _check_count("stop", len(stop), self.max_stop_strings, "strings")
        for name in _CONVERSATIONS:
            if isinstance(turns := fields.get(name), list):
                self.check_turns(name, len(turns))
        for name, value in fields.items():
            # No other object of a body has nearly as many keys as a bias may have.
            if isinstance(value, dict) or (name in _LISTS and isinstance(value, list)):
                self.check_bias(name, len(value))
        for name in _GRAMMARS:
            self.check_grammar(name, fields.get(name))


def is_larger(value: Any, limit: int) -> bool:
    """Whether the texts, numbers and keys inside have more characters than that."""
    size = 0
    for length in _lengths(value):
        size += length
        if size > limit:
            return True
    return False


def _lengths(value: Any) -> Iterator[int]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        # Brackets, commas and the shortest values take a character each.
        yield 1
        if isinstance(part, str):
            yield len(part)
        elif isinstance(part, dict):
            yield sum(map(len, part))
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _check_count(field: str, count: int, limit: int, what: str) -> None:
    if count > limit:
        raise InvalidArgument(field, f"has {count} {what}; the limit is {limit}")
