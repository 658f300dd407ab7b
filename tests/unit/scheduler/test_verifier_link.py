"""Steps are repeated until they are answered, on the same model only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dspark.errors import BackendUnavailable, InternalError, NotReady
from dspark.scheduler.verifier_link import VerifierLink, VerifierLost
from dspark.step import StepOutcome, StepPlan, VerifierInfo, VerifyCost
from harness.fake_verifier import FakeVerifier

INFO = FakeVerifier().info
PLAN = StepPlan("s", 7)


class Scripted:
    """A verifier whose calls fail with the scripted errors, then work."""

    def __init__(self, *errors: Exception, info: VerifierInfo = INFO) -> None:
        self.errors = list(errors)
        self.infos: list[VerifierInfo | Exception] = [INFO, info]
        self.plans: list[StepPlan] = []

    async def info(self) -> VerifierInfo:
        answer = self.infos.pop(0) if len(self.infos) > 1 else self.infos[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def step(self, plan: StepPlan) -> StepOutcome:
        self.plans.append(plan)
        if self.errors:
            raise self.errors.pop(0)
        return StepOutcome(plan.step_id)


async def connected(client: Scripted, timeout_s: float = 5.0) -> VerifierLink:
    link = VerifierLink(client, timeout_s)
    await link.connect()
    return link


def test_nothing_is_known_before_the_verifier_answered() -> None:
    link = VerifierLink(Scripted(), 1.0)
    assert not link.is_known
    with pytest.raises(NotReady):
        _ = link.info


async def test_connecting_waits_until_the_model_is_loaded() -> None:
    client = Scripted()
    client.infos = [NotReady("loading"), BackendUnavailable("verifier", "no socket"), INFO]
    assert (await connected(client)).is_answering


async def test_an_unanswered_step_is_repeated_as_it_was() -> None:
    client = Scripted(BackendUnavailable("verifier", "cut"), NotReady("loading"))
    link = await connected(client)
    assert (await link.step(PLAN)).step_id == 7
    assert client.plans == [PLAN] * 3 and link.is_answering


async def test_a_refusal_is_not_repeated() -> None:
    client = Scripted(InternalError("bug"))
    link = await connected(client)
    with pytest.raises(InternalError):
        await link.step(PLAN)
    assert client.plans == [PLAN]


async def test_a_verifier_that_stays_away_is_lost() -> None:
    client = Scripted(*[BackendUnavailable("verifier", "gone")] * 1000)
    link = await connected(client, timeout_s=0.2)
    with pytest.raises(VerifierLost):
        await link.step(PLAN)
    assert len(client.plans) > 1 and not link.is_answering


@pytest.mark.parametrize(
    "change",
    [
        {"model_digest": "x"},
        {"kernel_class": "x"},
        {"num_blocks": 1},
        {"dtype": "x"},
        {"feature_layers": (0,)},
    ],
)
async def test_another_model_is_not_asked_to_continue(change: dict[str, object]) -> None:
    client = Scripted(
        BackendUnavailable("verifier", "restart"),
        info=replace(INFO, **change),  # type: ignore[arg-type]
    )
    link = await connected(client)
    with pytest.raises(VerifierLost):
        await link.step(PLAN)
    assert client.plans == [PLAN]


async def test_the_same_model_with_other_measurements_continues() -> None:
    client = Scripted(
        BackendUnavailable("verifier", "restart"),
        info=replace(INFO, verify_costs=(VerifyCost(1, 2.0),)),
    )
    assert (await (await connected(client)).step(PLAN)).step_id == 7
