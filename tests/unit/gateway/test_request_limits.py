"""The sizes of a request's parts, held against limits before anything looks into them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.errors import InvalidArgument
from dspark.gateway.request_limits import RequestLimits, is_larger

LIMITS = RequestLimits(
    max_choices=4, max_stop_strings=3, max_bias_entries=5, max_grammar_chars=40, max_messages=7
)
LONG = "x" * 41
OVER: list[tuple[str, Any]] = [
    ("n", 5),
    ("n", 10**6),
    ("prompt", ["a"] * 5),
    ("prompt", [[1]] * 5),
    ("stop", ["a"] * 4),
    ("logit_bias", {str(i): 1 for i in range(6)}),
    ("speculation", {str(i): 1 for i in range(6)}),
    ("bad_words", ["a"] * 6),
    ("stop_token_ids", [1] * 6),
    ("response_format", {"type": "json_schema", "json_schema": {"schema": {LONG: True}}}),
    ("structured_outputs", {"regex": LONG}),
    ("guided_choice", ["a"] * 41),
    ("tools", [[[{"deep": [LONG]}]]]),
    ("tools", [1] * 8),
    ("messages", [1] * 8),
    ("input", [1] * 8),
    ("text", {"format": {"schema": LONG}}),
]


@pytest.mark.parametrize(("field", "value"), OVER)
def test_a_field_over_its_limit_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        LIMITS.check({"prompt": [1] * 1000, field: value})
    assert caught.value.field == field
    roomy = replace(
        LIMITS,
        max_choices=10**6,
        max_stop_strings=4,
        max_bias_entries=6,
        max_grammar_chars=200,
        max_messages=8,
    )
    roomy.check({field: value})


@given(st.dictionaries(st.sampled_from([field for field, _ in OVER]), st.from_type(object)))
def test_what_is_of_another_type_is_left_to_others(fields: dict[str, Any]) -> None:
    LIMITS.check({name: None if isinstance(v, int) else v for name, v in fields.items()})


@pytest.mark.parametrize(
    ("value", "size"), [("abc", 4), ([], 1), ([1, 2], 3), ({"ab": "c"}, 5), (None, 1)]
)
def test_the_size_counts_texts_keys_and_values(value: Any, size: int) -> None:
    assert not is_larger(value, size)
    assert is_larger(value, size - 1)
