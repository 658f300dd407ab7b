"""Bodies of HTTP requests that want to hurt, and how each is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

COMPLETIONS, CHAT, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/responses"
TOKENIZE, DETOKENIZE = "/tokenize", "/detokenize"
MANY = 10**5
# The largest body that is read at all.
_MOST = 8 * 1024 * 1024 - 1024


class Hostile(NamedTuple):
    """What is sent; the status of the answer and the field that it names."""

    body: bytes
    status: int
    param: str | None
    path: str = COMPLETIONS


def _of(**fields: Any) -> bytes:
    return json.dumps({"prompt": "hi", **fields}).encode()


def _chat(**fields: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "hi"}], **fields}).encode()


def _prompt(part: bytes) -> bytes:
    """The part again and again, in one list."""
    return b'{"prompt":[' + part * (_MOST // len(part)) + b"1]}"


def _bias(num_bytes: int) -> bytes:
    entry = '"%d":1.5,'
    entries = "".join(entry % index for index in range(num_bytes // len(entry)))
    return b'{"prompt":"hi","logit_bias":{' + entries.encode() + b'"x":1}}'


def _deep(num_levels: int, opened: bytes, value: bytes, closed: bytes) -> bytes:
    return b'{"prompt":' + opened * num_levels + value + closed * num_levels + b"}"


BODIES: Mapping[str, Hostile] = {
    "a million choices": Hostile(_of(n=10**6), 400, "n"),
    "choices beyond any integer": Hostile(_of(n=10**400), 400, "n"),
    "too many choices over many prompts": Hostile(_of(prompt=["a"] * 100, n=100), 400, "n"),
    "a hundred thousand prompts": Hostile(_of(prompt=["a"] * MANY), 400, "prompt"),
    "a hundred thousand prompts of tokens": Hostile(_of(prompt=[[1]] * MANY), 400, "prompt"),
    "a hundred thousand stop strings": Hostile(_of(stop=["x"] * MANY), 400, "stop"),
    "a huge stop string": Hostile(_of(stop="x" * 10**6), 400, "stop"),
    "ten megabytes of bias": Hostile(_bias(10**7), 413, None),
    "five megabytes of bias": Hostile(_bias(5 * 10**6), 400, "body"),
    "half a megabyte of bias": Hostile(_bias(5 * 10**5), 400, "logit_bias"),
    "a hundred thousand stop tokens": Hostile(
        _of(stop_token_ids=[1] * MANY), 400, "stop_token_ids"
    ),
    "a hundred thousand texts for stop tokens": Hostile(
        _of(stop_token_ids=["x"] * MANY), 400, "stop_token_ids"
    ),
    "a hundred thousand allowed texts": Hostile(
        _of(allowed_token_ids=["x"] * MANY), 400, "allowed_token_ids[0]"
    ),
    "a hundred thousand wrong sources": Hostile(
        _of(speculation={"sources": [1] * MANY}), 400, "speculation.sources[0]"
    ),
    "a hundred thousand unknown sources": Hostile(
        _of(speculation={"sources": ["x"] * MANY}), 400, "speculation.sources"
    ),
    "a hundred thousand wrong choices": Hostile(
        _of(guided_choice=[1] * MANY), 400, "guided_choice[0]"
    ),
    "a huge grammar": Hostile(
        _of(structured_outputs={"regex": "(a|b)*" * MANY}), 400, "structured_outputs"
    ),
    "a huge schema": Hostile(
        _of(guided_json={"enum": [f"value {i}" for i in range(MANY)]}), 400, "guided_json"
    ),
    "a prompt of millions of characters": Hostile(_of(prompt="x" * 5 * 10**6), 400, "prompt"),
    "a prompt of a million tokens": Hostile(_of(prompt=[1] * 10**6), 400, "body"),
    "a prompt of many tokens": Hostile(_of(prompt=[1] * 400_000), 400, "prompt"),
    "a prompt of many tokens that are none": Hostile(
        _of(prompt=[-1] * 400_000 + [None]), 400, "prompt"
    ),
    "as many numbers as fit": Hostile(_prompt(b"1,"), 400, "body"),
    "as many fractions as fit": Hostile(_prompt(b"1.5,"), 400, "body"),
    "as many texts as fit": Hostile(_prompt(b'"",'), 400, "body"),
    "as many lists as fit": Hostile(_prompt(b"[],"), 400, "body"),
    "as many objects as fit": Hostile(_prompt(b"{},"), 400, "body"),
    "as many lists in lists as fit": Hostile(_prompt(b"[" * 400 + b"]" * 400 + b","), 400, "body"),
    "many commas in a text": Hostile(_of(prompt=", " * 10**6), 400, "prompt"),
    "many quotation marks in a text": Hostile(_of(prompt='"\\' * 10**6), 400, "prompt"),
    "a number that is none": Hostile(b'{"prompt":"hi","temperature":NaN}', 400, "body"),
    "an infinite number": Hostile(b'{"prompt":"hi","temperature":1e999}', 400, "body"),
    "an integer of many digits": Hostile(
        b'{"prompt":"hi","seed":' + b"9" * MANY + b"}", 400, "body"
    ),
    "a fraction of many digits": Hostile(
        b'{"prompt":"hi","seed":0.' + b"9" * _MOST + b"}", 400, "seed"
    ),
    "deep lists": Hostile(_deep(MANY, b"[", b"", b"]"), 400, "body"),
    "deep objects": Hostile(_deep(MANY, b'{"a":', b"1", b"}"), 400, "body"),
    "a deep list that never ends": Hostile(_deep(MANY, b"[", b"", b""), 400, "body"),
    "a text that never ends": Hostile(b'{"prompt":"' + b'\\"' * 10**6, 400, "body"),
    "bytes that are no text": Hostile(b'{"prompt":"\xff\xfe"}', 400, "body"),
    "half a character": Hostile(b'{"prompt":"\\ud800"}', 400, "prompt"),
    "many keys that are none": Hostile(
        json.dumps({"prompt": "hi", **{f"k{i}": i for i in range(MANY // 2)}}).encode(),
        400,
        "k0",
    ),
    "many keys in a part": Hostile(
        _of(speculation={f"k{i}": i for i in range(MANY // 2)}), 400, "speculation"
    ),
    "the same key again and again": Hostile(
        b"{" + b'"prompt":"hi",' * (MANY // 2) + b'"prompt":"hi"}', 400, "prompt"
    ),
    "many messages that are none": Hostile(_chat(messages=[1] * MANY), 400, "messages", CHAT),
    "many empty messages": Hostile(_chat(messages=[{}] * 4000), 400, "messages[0].role", CHAT),
    "many messages of a wrong role": Hostile(
        _chat(messages=[{"role": "x", "content": "x"}] * 4000), 400, "messages[0].role", CHAT
    ),
    "more messages than are read": Hostile(
        _chat(messages=[{"role": "user", "content": "x"}] * 30_000), 400, "messages", CHAT
    ),
    "more messages than are parsed": Hostile(
        _chat(messages=[{"role": "user", "content": "x"}] * 50_000), 400, "body", CHAT
    ),
    "many parts that are none": Hostile(
        _chat(messages=[{"role": "user", "content": [1] * MANY}]),
        400,
        "messages[0].content[0]",
        CHAT,
    ),
    "many tools that are none": Hostile(_chat(tools=[1] * MANY), 400, "tools", CHAT),
    "many documents that are none": Hostile(_chat(documents=[1] * MANY), 400, "documents[0]", CHAT),
    "huge parameters of a tool": Hostile(
        _chat(
            tools=[
                {
                    "type": "function",
                    "function": {"name": "f", "parameters": {"enum": [1] * MANY * 3}},
                }
            ]
        ),
        400,
        "tools",
        CHAT,
    ),
    "many variables of a template": Hostile(
        _chat(chat_template_kwargs={f"k{i}": 1 for i in range(MANY // 4)}),
        400,
        "chat_template_kwargs",
        CHAT,
    ),
    "many items that are none": Hostile(
        json.dumps({"input": [1] * MANY}).encode(), 400, "input", RESPONSES
    ),
    "many wrong tokens to decode": Hostile(
        json.dumps({"tokens": [-1] * 400_000}).encode(), 400, "tokens", DETOKENIZE
    ),
    "many texts to decode": Hostile(
        json.dumps({"tokens": ["x"] * 400_000}).encode(), 400, "tokens[0]", DETOKENIZE
    ),
    "a text of millions of characters to encode": Hostile(
        _of(prompt="x" * 5 * 10**6), 400, "prompt", TOKENIZE
    ),
    "nothing": Hostile(b"", 400, "body"),
    "zeros": Hostile(b"\0" * MANY, 400, "body"),
}
# Such as are served, and want much.
HEAVY: Mapping[str, Hostile] = {
    "a hundred long prompts": Hostile(_of(prompt=["x" * 100] * 100, max_tokens=1), 200, None),
    "long stop strings for many choices": Hostile(
        _of(stop=[str(i % 10) * 1023 + "x" for i in range(64)], n=64, max_tokens=1), 200, None
    ),
    "long bad words for many prompts": Hostile(
        _of(prompt=["a"] * 16, bad_words=[f"{i:04}" * 64 for i in range(256)], max_tokens=1),
        200,
        None,
    ),
    "many tokens to decode": Hostile(
        json.dumps({"tokens": [97] * 400_000}).encode(), 200, None, DETOKENIZE
    ),
}
