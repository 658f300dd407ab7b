"""The same text as transformers makes, template for template."""

from __future__ import annotations

from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from dspark.gateway.chat_template import ChatTemplate

CHATML = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}
{{ '<|im_start|>system\\nBe kind<|im_end|>\\n' }}{% endif %}
{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
LLAMA = """{{- bos_token }}
{%- set loop_messages = messages %}
{%- for message in loop_messages %}
    {%- set content = '<|start|>' + message['role'] + '<|end|>\\n\\n' + message['content'] | trim %}
    {{- content }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}"""
NAMESPACE = """{% set ns = namespace(seen=false) %}
{%- for m in messages %}
  {%- if m.role == 'user' and not ns.seen %}{% set ns.seen = true %}first:{% endif %}
  {%- if m.role == 'assistant' %}
    {%- generation %}{{ m.content }}{% endgeneration %}{% continue %}
  {%- endif %}
{{ loop.index0 }}:{{ m.content | upper }}{{ m | tojson }}
{% endfor %}
{% if tools is defined and tools %}tools{% endif %}{{ messages[-1:] | list | length }}
  {# a comment #}
  tail"""
MESSAGES: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": " <b>ü</b> & \"q\" 'x' \u2028"}],
    [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "  c  "},
        {"role": "user", "content": ""},
    ],
]


@pytest.mark.parametrize("messages", MESSAGES)
@pytest.mark.parametrize("source", [CHATML, LLAMA, NAMESPACE])
def test_rendering_equals_transformers(source: str, messages: list[dict[str, Any]]) -> None:
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    rendered, _ = render_jinja_template(
        conversations=[messages], chat_template=source, add_generation_prompt=True, **tokens
    )
    assert ChatTemplate(source, tokens).render(messages) == rendered[0]


TOOLS = """{%- macro line(x) %}{{ x | tojson }}
{% endmacro -%}
{% if tools %}{% for tool in tools %}{{ line(tool.function) }}{% endfor %}{% endif %}
{%- for document in documents or [] %}{{ document.title }};{% endfor %}
{%- for m in messages %}[{{ m.role }}]{{ m.content | trim }}
  {%- for call in m.tool_calls or [] %}{{ call.function.arguments | tojson }}{% endfor %}
  {{- m.reasoning_content if m.reasoning_content is defined }}
{%- endfor %}
{%- if enable_thinking is defined and not enable_thinking %}<no>{% endif %}
{%- if add_generation_prompt %}[assistant]{% endif %}"""
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"ü": [1]}}}


@pytest.mark.parametrize("source", [TOOLS, "{{ messages[-1].content }} {# content #}"])
@pytest.mark.parametrize("ending", ["Once ", "Once", " Once\n", ""])
@pytest.mark.parametrize("continues", [False, True])
def test_tools_variables_and_continued_messages_equal_transformers(
    source: str, ending: str, continues: bool
) -> None:
    messages = [
        {"role": "assistant", "tool_calls": [CALL], "reasoning_content": "r", "thinking": "r"},
        {"role": "tool", "content": "1", "tool_call_id": "c"},
        {"role": "assistant", "content": ending},
    ]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    documents = [{"title": "t", "text": "x"}]
    rendered, _ = render_jinja_template(
        conversations=[messages],
        chat_template=source,
        tools=tools,
        documents=documents,
        add_generation_prompt=not continues,
        continue_final_message=continues,
        enable_thinking=False,
    )
    ours = ChatTemplate(source, {}).render(
        messages,
        tools=tools,
        documents=documents,
        add_generation_prompt=not continues,
        continue_final_message=continues,
        variables={"enable_thinking": False},
    )
    assert ours == rendered[0]
