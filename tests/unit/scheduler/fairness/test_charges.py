"""Tenants are charged what their requests use, when they use it."""

from __future__ import annotations

from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams
from dspark.scheduler.fairness.charges import Charges
from dspark.scheduler.fairness.tenant_accounts import QUANTUM
from dspark.scheduler.request import Request


def make(name: str, tenant: str, num_prompt: int = 1000, max_tokens: int = 1000) -> Request:
    spec = RequestSpec(
        name, (1,) * num_prompt, SamplingParams(max_tokens=max_tokens), tenant=tenant
    )
    return Request(spec, 0)


def rounds(tokens: int) -> int:
    return tokens // QUANTUM


def test_the_prompt_is_charged_first_and_tokens_as_they_come() -> None:
    charges = Charges()
    request, other = make("r", "a"), make("s", "a")
    charges.hold(request, ())
    charges.hold(other, (request.share,))
    assert charges.charge(request, (request.share,))
    assert charges.round_of(request.share) == rounds(1000)
    request.num_cached_tokens = 512
    charges.correct(request)
    assert charges.round_of(request.share) == rounds(488)
    request.token_ids += [7] * 100
    charges.correct(request)
    charges.correct(request)
    assert charges.round_of(request.share) == rounds(588)
    request.token_ids += [7] * 200
    charges.settle(request)
    assert charges.round_of(request.share) == rounds(788)


def test_a_request_is_charged_once_however_often_it_is_admitted() -> None:
    charges = Charges()
    request = make("r", "a")
    charges.hold(request, ())
    assert charges.charge(request, (request.share,))
    charges.hold(request, ())
    assert not charges.charge(request, (request.share,))
    assert charges.round_of(request.share) == rounds(1000)


def test_nothing_is_left_of_tenants_that_are_gone() -> None:
    charges = Charges()
    for index in range(100):
        request = make(f"r{index}", f"t{index}")
        charges.hold(request, ())
        if index % 2:
            charges.charge(request, (request.share,))
        charges.settle(request)
        charges.settle(request)
    assert len(charges) == 0
