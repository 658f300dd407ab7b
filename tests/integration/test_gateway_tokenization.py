"""/tokenize and /detokenize, and the same over gRPC and the SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dspark.client import AsyncClient, Client
from dspark.errors import ContextLength, InvalidArgument, ModelNotFound
from harness.byte_tokenizer import EOS, TURN, byte_tokenizer
from harness.gateway_stack import MODEL, GatewayStack, gateway_stack

CHAT = [{"role": "user", "content": "hi"}]
END_ID, TURN_ID = 256, 257


@pytest.fixture
async def client(stack: GatewayStack) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(stack.grpc_target) as opened:
        yield opened


async def _post(stack: GatewayStack, path: str, **fields: Any) -> Any:
    reply = await stack.client.post(path, json=fields)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_a_text_has_the_tokens_that_a_completion_of_it_has(stack: GatewayStack) -> None:
    text = f"né{EOS}"
    tokens = await _post(stack, "/tokenize", model=MODEL, prompt=text, return_token_strs=True)
    assert tokens == {
        "count": 5 - 1,
        "max_model_len": 128,
        "tokens": [*"né".encode(), END_ID],
        "token_strs": ["n", "Ã", "©", EOS],
    } | {"count": 4}
    answer = (await stack.complete(prompt=text, return_token_ids=True)).json()
    assert answer["prompt_token_ids"] == tokens["tokens"]


async def test_messages_are_laid_out_as_a_chat_is(stack: GatewayStack) -> None:
    tokens = await _post(stack, "/tokenize", messages=CHAT)
    assert tokens["token_strs"] is None
    answer = (await stack.chat(return_token_ids=True)).json()
    assert answer["prompt_token_ids"] == tokens["tokens"]
    assert tokens["count"] == len(tokens["tokens"])


async def test_detokenize_shows_special_tokens(stack: GatewayStack) -> None:
    ids = [TURN_ID, *"né".encode(), END_ID]
    assert await _post(stack, "/detokenize", tokens=ids) == {"prompt": f"{TURN}né{EOS}"}
    assert await _post(stack, "/detokenize", tokens=[]) == {"prompt": ""}
    many = [ord("a")] * 5000
    assert await _post(stack, "/detokenize", tokens=many) == {"prompt": "a" * 5000}


async def test_what_the_tokenizer_adds_is_asked_for(tmp_path: Path) -> None:
    from tokenizers import processors

    tokenizer = byte_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{TURN} $A", special_tokens=[(TURN, TURN_ID)]
    )
    async with gateway_stack(tmp_path, tokenizer=tokenizer) as stack:
        plain = await _post(stack, "/tokenize", prompt="a")
        whole = await _post(stack, "/tokenize", prompt="a", add_special_tokens=True)
        assert (plain["tokens"], whole["tokens"]) == ([97], [TURN_ID, 97])


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": 3}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": CHAT}, "messages"),
        ("/tokenize", {"prompt": "a", "add_generation_prompt": False}, "add_generation_prompt"),
        ("/tokenize", {"messages": CHAT, "add_special_tokens": True}, "add_special_tokens"),
        ("/tokenize", {"messages": [{"role": "x", "content": ""}]}, "messages[0].role"),
        ("/tokenize", {"prompt": "a", "extra": 1}, "extra"),
        ("/tokenize", {"prompt": "x" * 1300}, "prompt"),
        ("/tokenize", {"prompt": "a", "model": "other"}, "model"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [1.5]}, "tokens[0]"),
        ("/detokenize", {"tokens": [258]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": "abc"}, "tokens"),
        ("/detokenize", {"tokens": [1], "model": "other"}, "model"),
    ],
)
async def test_what_is_wrong_is_named(
    stack: GatewayStack, path: str, fields: dict[str, Any], param: str
) -> None:
    reply = await stack.client.post(path, json=fields)
    assert reply.status_code == (404 if param == "model" else 400)
    assert reply.json()["error"]["param"] == param


async def test_the_sdk_does_the_same(client: AsyncClient) -> None:
    tokens = await client.tokenize("hé", return_spellings=True)
    assert (tokens.token_ids, tokens.max_model_len) == (tuple("hé".encode()), 128)
    assert tokens.spellings == ("h", "Ã", "©")
    chat = await client.tokenize(CHAT)
    assert chat.token_ids[0] == TURN_ID
    assert chat.spellings == ()
    assert await client.detokenize(chat.token_ids) == f"{TURN}user:hi{EOS}{TURN}assistant:"


async def test_the_sdk_names_what_is_wrong(client: AsyncClient) -> None:
    with pytest.raises(InvalidArgument, match="text or chat messages"):
        await client.tokenize([1, 2])
    with pytest.raises(InvalidArgument, match="token_ids"):
        await client.detokenize([-1])
    with pytest.raises(InvalidArgument, match="token_ids: token id 258"):
        await client.detokenize([258])
    with pytest.raises(ContextLength):
        await client.tokenize("x" * 1300)
    with pytest.raises(ModelNotFound):
        await client.generate("x", model="other")


async def test_the_status_says_what_runs(stack: GatewayStack, client: AsyncClient) -> None:
    status = await client.status()
    assert (status.is_ready, status.problem, status.num_answering) == (True, "", 0)
    assert status.version == (await stack.client.get("/version")).json()["version"]
    assert status.engine is not None
    assert (status.engine.num_running, status.engine.num_waiting) == (2, 3)
    assert (status.engine.num_blocks, status.engine.num_free_blocks) == (100, 75)


def test_the_sync_client_has_them_too(tmp_path: Path) -> None:
    import asyncio

    async def run() -> None:
        async with gateway_stack(tmp_path) as stack:

            def ask() -> None:
                with Client(stack.grpc_target) as client:
                    assert client.detokenize(client.tokenize("abc").token_ids) == "abc"
                    assert client.status().is_ready
                    assert len(client.generate_choices("a", 2)) == 2

            await asyncio.to_thread(ask)

    asyncio.run(run())
