"""Errors about fields, whose readers may know the field by another name."""

from __future__ import annotations

from dspark.errors import ContextLength, InvalidArgument


def test_the_problem_is_the_message_without_the_field() -> None:
    assert InvalidArgument("top_p", "must be above 0").problem == "must be above 0"


def test_an_error_with_another_name_of_its_field_is_the_same_otherwise() -> None:
    error = ContextLength("max_tokens", "max_tokens is too large", limit=8, given=9)
    assert error.renamed("max_output_tokens") is error
    assert error.message == str(error) == "max_output_tokens: max_tokens is too large"
    assert error.metadata == {"field": "max_output_tokens", "limit": "8", "given": "9"}
