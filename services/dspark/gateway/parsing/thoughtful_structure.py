"""A structured output that the model may think before."""

from __future__ import annotations

import json

from dspark.gateway.parsing.think_tags import Stage
from dspark.gateway.parsing.thought_grammar import SpecialId, thought_before
from dspark.grammars.translation import grammar_text
from dspark.structured_output import Structure, StructuredOutput


def behind_thought(
    output: StructuredOutput, stage: Stage, special_id: SpecialId
) -> StructuredOutput:
    """The grammar of reasoning, from the stage in which the answer begins on, and then ``output``.

    ``special_id`` gives the id of a tag that is a special token, which no text spells. Raises
    GrammarRefused for an output without a translation.
    """
    before, rules = thought_before(stage, special_id)
    answer = _right_side(output.structure, grammar_text(output))
    return StructuredOutput.grammar("\n".join([f"start: {before}answer", *rules, answer]))


def _right_side(structure: Structure, grammar: str) -> str:
    """The rule ``answer`` of what llguidance compiles: Lark, or a list of one grammar."""
    if structure in (Structure.GRAMMAR, Structure.CHOICE):
        return _lark(grammar)
    (only,) = json.loads(grammar)["grammars"]
    if structure is Structure.REGEX:
        return _lark(only["lark_grammar"])
    return f"answer: %json {json.dumps(only['json_schema'])}"


def _lark(grammar: str) -> str:
    return f"answer: %lark {{\n{grammar}\n}}"
