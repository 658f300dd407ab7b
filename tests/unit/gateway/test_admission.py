"""Prompts, defaults and limits, all before any queue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, processors

from dspark.errors import ContextLength, InvalidArgument, ModelNotFound, NotReady
from dspark.gateway.client_request import (
    ChatMessage,
    ChatPrompt,
    ClientRequest,
    Prompt,
    TextPrompt,
    TokenPrompt,
)
from dspark.gateway.config import GatewayConfig
from dspark.gateway.gateway import Gateway, make_gateway
from dspark.gateway.token_source import GenerationRequest
from dspark.sampling import SpeculationParams
from harness.byte_tokenizer import CHAT_TEMPLATE, EOS, TURN, byte_tokenizer, write_model_dir
from harness.scripted_source import INFO, ScriptedSource

MAX_LEN = 32
END, TURN_ID = 256, 257


async def _gateway(
    folder: Path,
    source: ScriptedSource | None = None,
    tokenizer: Tokenizer | None = None,
    template: str | None = CHAT_TEMPLATE,
) -> Gateway:
    write_model_dir(folder, tokenizer, template)
    config = GatewayConfig(model_dir=str(folder), served_model_name="m")
    gateway = make_gateway(config, source or ScriptedSource())
    await gateway.monitor.refresh()
    return gateway


async def _admit(folder: Path, prompt: Prompt, **fields: Any) -> GenerationRequest:
    gateway = await _gateway(folder)
    return (await gateway.admission.admit(ClientRequest("r", prompt, **fields))).request


def _chat(*turns: tuple[str, str]) -> ChatPrompt:
    return ChatPrompt(tuple(ChatMessage(role, content) for role, content in turns))


async def test_text_is_encoded_with_special_tokens_parsed_and_nothing_added(tmp_path: Path) -> None:
    request = await _admit(tmp_path, TextPrompt(f"{TURN}a{EOS}"))
    assert request.prompt_token_ids == (TURN_ID, ord("a"), END)


async def test_long_texts_are_encoded_alike(tmp_path: Path) -> None:
    source = ScriptedSource(replace(INFO, max_model_len=100_000, max_pool_tokens=100_000))
    gateway = await _gateway(tmp_path, source)
    text = f"{TURN}ab" * 4000
    admitted = await gateway.admission.admit(ClientRequest("r", TextPrompt(text)))
    assert admitted.request.prompt_token_ids == (TURN_ID, ord("a"), ord("b")) * 4000


async def test_chat_is_laid_out_by_the_template(tmp_path: Path) -> None:
    request = await _admit(tmp_path, _chat(("user", "x")))
    expected = (TURN_ID, *b"user:x", END, TURN_ID, *b"assistant:")
    assert request.prompt_token_ids == expected
    assert request.sampling.max_tokens == MAX_LEN - len(expected)


async def test_defaults(tmp_path: Path) -> None:
    request = await _admit(tmp_path, TextPrompt("x"))
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.min_p, sampling.top_k) == (1, 1, 0, 0)
    assert (sampling.max_tokens, sampling.ignore_eos) == (16, False)
    assert request.use_prefix_cache


async def test_seeds_are_kept_or_drawn(tmp_path: Path) -> None:
    given = await _admit(tmp_path, TextPrompt("x"), seed=7)
    drawn = [await _admit(tmp_path, TextPrompt("x")) for _ in range(20)]
    assert given.sampling.seed == 7
    assert len({request.sampling.seed for request in drawn}) == 20
    assert all(0 <= request.sampling.seed < 2**63 for request in drawn)


async def test_top_k_minus_one_means_all(tmp_path: Path) -> None:
    assert (await _admit(tmp_path, TextPrompt("x"), top_k=-1)).sampling.top_k == 0


@pytest.mark.parametrize("prompt", [TextPrompt(""), TokenPrompt(())])
async def test_an_empty_prompt_is_refused(tmp_path: Path, prompt: Prompt) -> None:
    with pytest.raises(InvalidArgument, match=r"prompt: is empty"):
        await _admit(tmp_path, prompt)


@pytest.mark.parametrize("text", [" ", "\n", EOS, TURN + EOS])
async def test_white_space_and_special_tokens_are_prompts(tmp_path: Path, text: str) -> None:
    assert (await _admit(tmp_path, TextPrompt(text))).prompt_token_ids


async def test_an_empty_text_becomes_the_tokenizers_own_beginning(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{TURN} $A", special_tokens=[(TURN, TURN_ID)]
    )
    gateway = await _gateway(tmp_path, tokenizer=tokenizer)
    for text, ids in (("", (TURN_ID,)), ("a", (ord("a"),))):
        admitted = await gateway.admission.admit(ClientRequest("r", TextPrompt(text)))
        assert admitted.request.prompt_token_ids == ids


async def test_the_longest_prompt_leaves_room_for_one_token(tmp_path: Path) -> None:
    request = await _admit(tmp_path, TokenPrompt((1,) * (MAX_LEN - 1)))
    assert request.sampling.max_tokens == 1


@pytest.mark.parametrize("length", [MAX_LEN, MAX_LEN + 1, 10 * MAX_LEN])
@pytest.mark.parametrize("prompt", [TextPrompt("a"), TokenPrompt((1,)), _chat(("user", "a"))])
async def test_a_longer_prompt_is_refused_with_the_numbers(
    tmp_path: Path, prompt: Any, length: int
) -> None:
    match prompt:
        case TextPrompt():
            prompt = TextPrompt("a" * length)
        case TokenPrompt():
            prompt = TokenPrompt((1,) * length)
        case ChatPrompt():
            prompt = _chat(("user", "a" * length))
    with pytest.raises(ContextLength) as caught:
        await _admit(tmp_path, prompt)
    error = caught.value
    assert error.metadata["limit"] == str(MAX_LEN)
    assert int(error.metadata["given"]) >= MAX_LEN
    assert error.metadata["given"] in error.message and str(MAX_LEN) in error.message


async def test_a_text_that_cannot_fit_is_refused_without_encoding_it(tmp_path: Path) -> None:
    gateway = await _gateway(tmp_path)
    longest = max(len(EOS), len(TURN))
    prompt = TextPrompt("a" * (longest * MAX_LEN))
    with pytest.raises(ContextLength, match=f"has at least {MAX_LEN} tokens") as caught:
        await gateway.admission.admit(ClientRequest("r", prompt))
    assert caught.value.metadata["given"] == str(MAX_LEN)


async def test_the_kv_pool_limits_too(tmp_path: Path) -> None:
    gateway = await _gateway(tmp_path, ScriptedSource(replace(INFO, max_pool_tokens=8)))
    with pytest.raises(ContextLength) as caught:
        await gateway.admission.admit(ClientRequest("r", TokenPrompt((1,) * 8)))
    assert caught.value.metadata["limit"] == "8"


@pytest.mark.parametrize(("max_tokens", "is_good"), [(22, True), (23, False), (10**30, False)])
async def test_prompt_and_max_tokens_fit_together(
    tmp_path: Path, max_tokens: int, is_good: bool
) -> None:
    prompt = TokenPrompt((1,) * 10)
    if is_good:
        request = await _admit(tmp_path, prompt, max_tokens=max_tokens)
        assert request.sampling.max_tokens == max_tokens
        return
    with pytest.raises(ContextLength) as caught:
        await _admit(tmp_path, prompt, max_tokens=max_tokens)
    assert caught.value.field == "max_tokens"


@pytest.mark.parametrize("token_id", [-1, 300, 2**32, 10**30])
async def test_token_ids_outside_the_vocabulary_are_refused(tmp_path: Path, token_id: int) -> None:
    with pytest.raises(InvalidArgument, match=rf"prompt: token id {token_id} is not in 0 to 299"):
        await _admit(tmp_path, TokenPrompt((1, token_id)))


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("temperature", -0.1, "temperature"),
        ("temperature", 101.0, "temperature"),
        ("temperature", float("nan"), "temperature"),
        ("top_p", 0.0, "top_p"),
        ("top_p", 1.1, "top_p"),
        ("min_p", -0.1, "min_p"),
        ("min_p", 1.1, "min_p"),
        ("top_k", -2, "top_k"),
        ("top_k", 2**32, "top_k"),
        ("seed", -1, "seed"),
        ("seed", 2**64, "seed"),
        ("max_tokens", 0, "max_tokens"),
        ("max_tokens", -5, "max_tokens"),
        ("stop_token_ids", (300,), "stop_token_ids"),
        ("stop_strings", ("",), "stop"),
        ("stop_strings", ("x",) * 65, "stop"),
        ("stop_strings", ("x" * 1025,), "stop"),
        ("priority", 2**31, "priority"),
        ("cache_salt", "x" * 1025, "cache_salt"),
        ("speculation", SpeculationParams(sources=("nope",)), "speculation.sources"),
        ("speculation", SpeculationParams(max_draft_tokens=-1), "speculation.max_draft_tokens"),
    ],
)
async def test_values_out_of_range_are_refused_by_name(
    tmp_path: Path, field: str, value: Any, named: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await _admit(tmp_path, TextPrompt("x"), **{field: value})
    assert caught.value.field == named


async def test_a_source_that_is_down_for_now_is_no_unknown_name(tmp_path: Path) -> None:
    source = ScriptedSource()
    gateway = await _gateway(tmp_path, source)
    source.answer = replace(INFO, sources=())
    await gateway.monitor.refresh()
    speculation = SpeculationParams(sources=("suffix",))
    client = ClientRequest("r", TextPrompt("x"), speculation=speculation)
    assert (await gateway.admission.admit(client)).request.speculation == speculation


async def test_a_corpus_is_a_source_by_its_name(tmp_path: Path) -> None:
    source = ScriptedSource()
    gateway = await _gateway(tmp_path, source)
    source.answer = replace(INFO, sources=("suffix", "corpus:python_3-x"))
    await gateway.monitor.refresh()
    speculation = SpeculationParams(sources=("corpus:python_3-x",))
    client = ClientRequest("r", TextPrompt("x"), speculation=speculation)
    assert (await gateway.admission.admit(client)).request.speculation == speculation
    unknown = replace(client, speculation=SpeculationParams(sources=("corpus:go",)))
    with pytest.raises(InvalidArgument, match="corpus:go"):
        await gateway.admission.admit(unknown)


async def test_another_model_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        await _admit(tmp_path, TextPrompt("x"), model="gpt-4")


@pytest.mark.parametrize("role", ["function", "", "User"])
async def test_roles_are_checked(tmp_path: Path, role: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await _admit(tmp_path, _chat(("user", "x"), (role, "y")))
    assert caught.value.field == "messages[1].role"


async def test_a_model_without_a_chat_template_says_so(tmp_path: Path) -> None:
    gateway = await _gateway(tmp_path, template=None)
    with pytest.raises(InvalidArgument, match="no chat template"):
        await gateway.admission.admit(ClientRequest("r", _chat(("user", "x"))))


async def test_before_the_scheduler_is_ready_its_problem_is_the_answer(tmp_path: Path) -> None:
    gateway = await _gateway(tmp_path, ScriptedSource(NotReady("loading")))
    with pytest.raises(NotReady, match="loading"):
        await gateway.admission.admit(ClientRequest("r", TextPrompt("x")))


async def test_options_that_change_logits_go_to_the_verifier(tmp_path: Path) -> None:
    request = await _admit(
        tmp_path,
        TextPrompt("a"),
        repetition_penalty=1.5,
        presence_penalty=-1,
        frequency_penalty=0.5,
        logit_bias=((7, -100),),
        bad_word_texts=("no",),
        bad_words=((1, 2),),
        allowed_token_ids=(5, 6),
        min_tokens=3,
        logprobs=2,
    )
    sampling = request.sampling
    assert (sampling.repetition_penalty, sampling.presence_penalty) == (1.5, -1)
    assert (sampling.frequency_penalty, sampling.logit_bias) == (0.5, ((7, -100),))
    assert sampling.bad_words == ((1, 2), tuple(b"no"))
    assert (sampling.allowed_token_ids, sampling.min_tokens) == (frozenset({5, 6}), 3)
    assert (sampling.logprobs, sampling.prompt_logprobs) == (2, None)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"prompt_logprobs": 3}, 3),
        ({"logprobs": 2, "echo": True}, 2),
        ({"logprobs": 2, "echo": True, "prompt_logprobs": 4}, 4),
        ({"echo": True}, None),
        ({"logprobs": 0, "echo": True}, 0),
    ],
)
async def test_an_echo_with_logprobs_asks_for_those_of_the_prompt(
    tmp_path: Path, fields: dict[str, Any], expected: int | None
) -> None:
    request = await _admit(tmp_path, TextPrompt("a"), **fields)
    assert request.sampling.prompt_logprobs == expected


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("repetition_penalty", {"repetition_penalty": 0}),
        ("repetition_penalty", {"repetition_penalty": 1e4}),
        ("presence_penalty", {"presence_penalty": 2.1}),
        ("frequency_penalty", {"frequency_penalty": -2.1}),
        ("logit_bias", {"logit_bias": ((300, 1.0),)}),
        ("logit_bias", {"logit_bias": ((1, 100.5),)}),
        ("logit_bias", {"logit_bias": ((1, 10**400),)}),
        ("logit_bias", {"logit_bias": ((1, 1.0), (1, 2.0))}),
        ("logit_bias", {"logit_bias": tuple((i, 1.0) for i in range(1025))}),
        ("bad_words", {"bad_word_texts": ("",)}),
        ("bad_words", {"bad_word_texts": (" ",)}),
        ("bad_words", {"bad_word_texts": ("x" * 257,)}),
        ("bad_words", {"bad_word_texts": ("x",) * 257}),
        ("bad_words", {"bad_words": ((),)}),
        ("bad_words", {"bad_words": ((1, 300),)}),
        ("bad_words", {"bad_words": ((5,), (6,)), "allowed_token_ids": (5, 6)}),
        ("allowed_token_ids", {"allowed_token_ids": (-1,)}),
        ("allowed_token_ids", {"allowed_token_ids": (300,)}),
        ("min_tokens", {"min_tokens": -1}),
        ("min_tokens", {"min_tokens": 2**40}),
        ("min_tokens", {"min_tokens": 17}),
        ("min_tokens", {"min_tokens": 1, "allowed_token_ids": (END,)}),
        ("min_tokens", {"min_tokens": 1, "allowed_token_ids": (5,), "stop_token_ids": (5,)}),
        ("logprobs", {"logprobs": 21}),
        ("logprobs", {"logprobs": -1}),
        ("prompt_logprobs", {"prompt_logprobs": 21}),
    ],
)
async def test_an_option_out_of_range_is_refused_by_name(
    tmp_path: Path, field: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await _admit(tmp_path, TextPrompt("a"), **fields)
    assert caught.value.field == field
