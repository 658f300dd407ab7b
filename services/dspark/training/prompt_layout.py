"""What stands before and after a user's words in a prompt."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.errors import InvalidArgument

USER = "{user}"


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """A prompt is ``before``, the user's words, and ``after``, which opens the model's turn."""

    before: str
    after: str

    @classmethod
    def of(cls, text: str) -> PromptLayout:
        """``text`` has ``{user}`` once, where the user's words go. Raises InvalidArgument."""
        if text.count(USER) != 1:
            raise InvalidArgument("prompt_template", f"must have {USER} exactly once")
        before, after = text.split(USER)
        return cls(before, after)

    def prompt(self, user: str) -> str:
        return f"{self.before}{user}{self.after}"
