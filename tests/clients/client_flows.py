"""Chat, streams and tools through LiteLLM and LangChain, unchanged, against a running server.

    dspark serve --tool-parser hermes --allow-chat-template
    pip install litellm langchain-openai
    python tests/clients/client_flows.py --base-url http://127.0.0.1:8000/v1

The default model has no place for tools in its chat template, so flows with tools bring one along.
Prints a line for each flow; exits with 1 where an answer is not what the flow needs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import litellm
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

MODEL = "smollm2-135m-instruct"
TEMPLATE = (
    "{% if tools %}<tool_call>s: {{ tools | tojson }}\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QUESTION = "What is the weather in Rome?"
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def with_litellm(base_url: str) -> None:
    def ask(**options: Any) -> Any:
        return litellm.completion(
            model=f"openai/{MODEL}",
            api_base=base_url,
            api_key="none",
            temperature=0,
            max_tokens=40,
            **options,
        )

    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    text = ask(messages=messages).choices[0].message.content
    pieces = [part.choices[0].delta.content or "" for part in ask(messages=messages, stream=True)]
    check("litellm chat", bool(text))
    check("litellm stream", "".join(pieces) == text and len(pieces) > 2)
    tools = {
        "tools": [TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "extra_body": {"chat_template": TEMPLATE},
    }
    choice = ask(messages=messages, **tools).choices[0]
    (call,) = choice.message.tool_calls
    check("litellm tool call", choice.finish_reason == "tool_calls")
    check("litellm arguments", list(json.loads(call.function.arguments)) == ["city"])
    messages += [
        choice.message.model_dump(include={"role", "content", "tool_calls"}),
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    last = ask(messages=messages, **(tools | {"tool_choice": "none"})).choices[0]
    check("litellm tool result", bool(last.message.content))


def with_langchain(base_url: str) -> None:
    model = ChatOpenAI(
        model=MODEL,
        base_url=base_url,
        api_key="none",
        temperature=0,
        max_tokens=40,
        extra_body={"chat_template": TEMPLATE},
    )
    text = model.invoke(QUESTION).content
    pieces = [chunk.content for chunk in model.stream(QUESTION)]
    check("langchain chat", bool(text))
    check("langchain stream", "".join(pieces) == text and len(pieces) > 2)
    calling = model.bind_tools([weather], tool_choice="weather", parallel_tool_calls=False)
    question = HumanMessage(QUESTION)
    answer = calling.invoke([question])
    (call,) = answer.tool_calls
    check("langchain tool call", call["name"] == "weather" and list(call["args"]) == ["city"])
    result = ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])
    check("langchain tool result", bool(model.invoke([question, answer, result]).content))


def check(flow: str, is_right: bool) -> None:
    print(f"{'ok   ' if is_right else 'WRONG'} {flow}", flush=True)
    if not is_right:
        sys.exit(1)


FLOWS: tuple[Callable[[str], None], ...] = (with_litellm, with_langchain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    for flow in FLOWS:
        flow(parser.parse_args().base_url)


if __name__ == "__main__":
    main()
