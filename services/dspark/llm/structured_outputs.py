"""What a text must be, in the names of vLLM's StructuredOutputsParams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dspark.errors import InvalidArgument
from dspark.structured_output import StructuredOutput

_FORMS = ("json", "regex", "choice", "grammar", "json_object")


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredOutputsParams:
    """One form that a text must have; ``json`` is a schema, as an object or as its text.

    ::

        SamplingParams(structured_outputs=StructuredOutputsParams(choice=["yes", "no"]))

    JSON has one space after each comma and colon; ``disable_any_whitespace=False`` lets the model
    choose. Raises InvalidArgument unless one form is set.
    """

    json: Mapping[str, Any] | str | None = None
    regex: str | None = None
    choice: Sequence[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = True

    def __post_init__(self) -> None:
        given = [name for name in _FORMS if getattr(self, name) not in (None, False)]
        if len(given) != 1:
            raise InvalidArgument("structured_outputs", f"one of {', '.join(_FORMS)} must be set")
        if isinstance(self.choice, str):
            raise InvalidArgument("structured_outputs.choice", "must be a list of texts")

    @property
    def output(self) -> StructuredOutput:
        """Raises InvalidArgument for a schema that is not JSON."""
        any_whitespace = not self.disable_any_whitespace
        if self.json is not None:
            try:
                return StructuredOutput.json_schema(self.json, any_whitespace=any_whitespace)
            except (TypeError, ValueError, RecursionError) as error:
                raise InvalidArgument("structured_outputs.json", str(error)) from error
        if self.regex is not None:
            return StructuredOutput.regex(self.regex)
        if self.choice is not None:
            return StructuredOutput.choice(self.choice)
        if self.grammar is not None:
            return StructuredOutput.grammar(self.grammar)
        return StructuredOutput.json_object(any_whitespace=any_whitespace)
