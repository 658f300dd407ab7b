"""Keyword arguments of an LLM become settings of its services, or errors that name them."""

from __future__ import annotations

from typing import Any

import pytest

from dspark.cli.services_config import ServicesConfig
from dspark.config import SettingError
from dspark.llm.settings import services_config, with_names


def test_settings_are_those_of_the_services() -> None:
    config = services_config(
        "tiny", {"sources": ["suffix", "recycle"], "kv_tokens": 512, "min_survival": 1}
    )
    assert config == ServicesConfig(
        model="tiny", sources=("suffix", "recycle"), kv_tokens=512, min_survival=1
    )


def test_lists_may_be_texts_with_commas_and_none_means_unset() -> None:
    config = services_config("tiny", {"sources": "suffix, recycle", "kv_tokens": None})
    assert config == ServicesConfig(model="tiny", sources=("suffix", "recycle"))


def test_what_is_not_given_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSPARK_KV_TOKENS", "256")
    assert services_config("tiny", {}).kv_tokens == 256
    assert services_config("tiny", {"kv_tokens": 512}).kv_tokens == 512


@pytest.mark.parametrize("name", ["tensor_parallel_size", "dtype", "http_port", "kv_token"])
def test_an_unknown_setting_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        services_config("tiny", {name: 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kv_tokens", "many"),
        ("kv_tokens", True),
        ("kv_tokens", 0),
        ("policy", "psychic"),
        ("sources", 5),
        ("sources", [5]),
        ("allow_chat_template", "yes"),
        ("min_survival", 2.0),
        ("num_draft_tokens", 0),
    ],
)
def test_a_bad_value_is_named_as_it_was_given(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=name):
        services_config("tiny", {name: value})


def test_flags_become_names() -> None:
    assert with_names("--max-model-len 9: too long -- see --corpus x=y") == (
        "max_model_len 9: too long -- see corpus x=y"
    )
