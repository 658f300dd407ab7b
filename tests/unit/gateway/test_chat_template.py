"""Templates render as transformers renders them, and fail as the client's error."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from dspark.errors import InvalidArgument
from dspark.gateway.chat_template import ChatTemplate
from dspark.gateway.template_files import load_chat_template
from dspark.gateway.tokenizer import TextTokenizer, special_tokens
from harness.byte_tokenizer import EOS, write_model_dir

USER = [{"role": "user", "content": "1 < 2 & ü"}]


def _render(source: str, **tokens: str) -> str:
    return ChatTemplate(source, tokens).render(USER)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ messages[0]['content'] }}", "1 < 2 & ü"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "1 < 2 & ü"}]'),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ bos_token }}x{{ eos_token }}", "<s>x</s>"),
        ("{% if tools %}T{% else %}-{% endif %}", "-"),
        ("{% if true %}\n    a\n  {% endif %}\nb", "    a\nb"),
        ("{% if add_generation_prompt %}go{% endif %}", "go"),
        ("{% for m in messages %}{% break %}x{% endfor %}.", "."),
        ("{% generation %}{{ messages[0].role }}{% endgeneration %}!", "user!"),
        ("{{ undefined_name }}.", "."),
        ("{{ strftime_now('%Y') }}", str(datetime.now().year)),
    ],
)
def test_rendering(source: str, expected: str) -> None:
    assert _render(source, bos_token="<s>", eos_token="</s>") == expected


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}{{ messages.__class__.__init__.__globals__['x'] }}",
        "{{ 1 / 0 }}",
        "{{ messages[5].role }}",
    ],
)
def test_a_template_that_fails_is_the_clients_error(source: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        _render(source)
    assert caught.value.field == "messages"


def test_the_reason_of_a_template_reaches_the_client() -> None:
    with pytest.raises(InvalidArgument, match="roles must alternate"):
        _render("{{ raise_exception('roles must alternate') }}")


def test_a_broken_template_is_found_at_start() -> None:
    with pytest.raises(ValueError, match="chat template is broken"):
        ChatTemplate("{% if %}", {})


def _load(folder: Path) -> ChatTemplate | None:
    return load_chat_template(folder, special_tokens(folder, TextTokenizer(folder)))


def _rendered(folder: Path) -> str:
    template = _load(folder)
    assert template is not None
    return template.render(USER)


def test_the_file_wins_over_the_configuration(tmp_path: Path) -> None:
    write_model_dir(tmp_path, chat_template="from configuration")
    assert _rendered(tmp_path) == "from configuration"
    (tmp_path / "chat_template.jinja").write_text("from file")
    assert _rendered(tmp_path) == "from file"


def test_the_default_of_named_templates_is_used(tmp_path: Path) -> None:
    write_model_dir(tmp_path, chat_template=None)
    assert _load(tmp_path) is None
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert _rendered(tmp_path) == "D"


def test_special_tokens_come_from_texts_objects_and_ids(tmp_path: Path) -> None:
    write_model_dir(tmp_path)
    config = {"bos_token": {"content": "<s>", "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokens = special_tokens(tmp_path, TextTokenizer(tmp_path))
    assert tokens == {"bos_token": "<s>", "eos_token": EOS}


def test_a_broken_configuration_is_named(tmp_path: Path) -> None:
    write_model_dir(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer_config\.json is not valid JSON"):
        _load(tmp_path)


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json does not exist"):
        TextTokenizer(tmp_path)
