"""Tenants are charged a guess when a request is admitted, and in the end what it used."""

from __future__ import annotations

from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams
from dspark.scheduler.fairness.charges import Charges
from dspark.scheduler.fairness.output_lengths import OutputLengths
from dspark.scheduler.fairness.tenant_accounts import QUANTUM
from dspark.scheduler.request import Request


def make(name: str, tenant: str, num_prompt: int = 1000, max_tokens: int = 1000) -> Request:
    spec = RequestSpec(
        name, (1,) * num_prompt, SamplingParams(max_tokens=max_tokens), tenant=tenant
    )
    return Request(spec, 0)


def rounds(tokens: int) -> int:
    return tokens // QUANTUM


def test_what_was_cached_and_what_was_not_generated_is_given_back() -> None:
    charges = Charges(OutputLengths())
    request, other = make("r", "a"), make("s", "a")
    charges.hold(request, ())
    charges.hold(other, (request.share,))
    assert charges.charge(request, (request.share,)) == 2000
    assert charges.round_of(request.share) == rounds(2000)
    request.num_cached_tokens = 512
    charges.correct(request)
    assert charges.round_of(request.share) == rounds(1488)
    request.token_ids += [7] * 100
    charges.settle(request)
    assert charges.round_of(request.share) == rounds(588)


def test_a_request_is_charged_once_however_often_it_is_admitted() -> None:
    charges = Charges(OutputLengths())
    request = make("r", "a")
    charges.hold(request, ())
    assert charges.charge(request, (request.share,)) == 2000
    charges.hold(request, ())
    assert charges.charge(request, (request.share,)) == 0
    assert charges.round_of(request.share) == rounds(2000)


def test_nothing_is_left_of_tenants_that_are_gone() -> None:
    charges = Charges(OutputLengths())
    for index in range(100):
        request = make(f"r{index}", f"t{index}")
        charges.hold(request, ())
        if index % 2:
            charges.charge(request, (request.share,))
        charges.settle(request)
        charges.settle(request)
    assert len(charges) == 0
