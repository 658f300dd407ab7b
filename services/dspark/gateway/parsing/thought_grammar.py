"""Grammar of what a model may think before its answer, as the reader of reasoning reads it."""

from __future__ import annotations

import re
from collections.abc import Callable

from dspark.gateway.parsing.think_tags import CLOSING, OPENING, Stage

SpecialId = Callable[[str], int | None]
# Competing lexemes that are lazy or a special token end it.
TEXT = "TEXT: /(?s:.*)/"
SPACES = r"[ \t\r\n]*"
# Enough for what models write behind their reasoning, and no way to write nothing else.
_BREAKS = r"BREAKS: /[\r\n]{1,4}/"
_BEFORE = {
    Stage.CONTENT: "",
    Stage.REASONING: "thought BREAKS? ",
    Stage.OPENING: "(thought BREAKS?)? ",
}


def thought_before(stage: Stage, special_id: SpecialId) -> tuple[str, list[str]]:
    """What begins the right side of a rule whose text may be thought about, and the rules for it.

    Of an answer that begins with content that is nothing; see ``thought_rules`` for the rest.
    """
    before = _BEFORE[stage]
    return before, [*thought_rules(stage, special_id), _BREAKS] if before else []


def thought_rules(stage: Stage, special_id: SpecialId) -> list[str]:
    """Lark (llguidance's) of ``thought``: reasoning up to the end of the tag that closes it.

    ``stage`` is that in which the answer begins, REASONING or OPENING. ``special_id`` gives the id
    of a tag that is a special token, which no text spells.
    """
    begin = _begin(stage, special_id)
    opened = SPACES + OPENING if begins_as_text(stage, special_id) else ""
    closing = special_id(CLOSING)
    if closing is None:
        thinking = f"thinking[lazy]: /{opened}(?s:.*){pattern(CLOSING)}/"
        return [f"thought: {begin}thinking", thinking]
    return [f"thought: {begin}THINKING <[{closing}]>", f"THINKING: /{opened}(?s:.*)/"]


def unfinished_thought(stage: Stage, special_id: SpecialId) -> str:
    """The right side of a rule: reasoning that the answer does not get out of. It needs TEXT."""
    return f"{_begin(stage, special_id)}TEXT"


def begins_as_text(stage: Stage, special_id: SpecialId) -> bool:
    """Whether only its first words tell a text that is reasoning from one that is not."""
    return stage is Stage.OPENING and special_id(OPENING) is None


def pattern(text: str) -> str:
    """The text itself, in a regular expression between slashes."""
    return re.escape(text).replace("/", r"\/")


def _begin(stage: Stage, special_id: SpecialId) -> str:
    opening = special_id(OPENING)
    if opening is None:
        return ""
    # Where the prompt opens reasoning a model may still say the tag.
    return f"<[{opening}]> " if stage is Stage.OPENING else f"<[{opening}]>? "
