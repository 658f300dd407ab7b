"""Admission, release, epochs, leases and tombstones, in every order of arrival."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dspark.errors import ContextLength, InvalidArgument
from dspark.sampling import SamplingParams
from dspark.step import SequenceRef, StepOutcome, WorkStatus
from harness.fake_model import FakeModel
from harness.scripted_drafters import KnownText
from harness.verifier_engine import (
    GREEDY,
    Client,
    Driver,
    FakeClock,
    fake_engine,
    plain_decode,
)

PROMPT = list(range(1, 10))
MODEL = FakeModel()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def driver(clock: FakeClock) -> Driver:
    return Driver(fake_engine(clock=clock, lease_s=10.0, tombstone_s=30.0)[0])


def status(outcome: StepOutcome) -> WorkStatus:
    (result,) = outcome.results
    return result.status


def test_work_for_an_unknown_sequence_is_not_found(driver: Driver) -> None:
    assert status(driver.step(work=(Client("a", PROMPT).work(),))) is WorkStatus.NOT_FOUND


@pytest.mark.parametrize("change", [{"epoch": 1}, {"epoch": 3}, {"base_len": 8}, {"base_len": 10}])
def test_work_of_another_epoch_or_length_is_stale_and_does_nothing(
    driver: Driver, change: dict[str, int]
) -> None:
    client = Client("a", PROMPT, epoch=2)
    driver.admit(client)
    outcome = driver.step(work=(replace(client.work(), **change),))
    assert status(outcome) is WorkStatus.STALE
    assert outcome.results[0].committed_token_ids == ()
    assert outcome.num_rows == 0
    driver.work(client)
    assert len(client.committed) == 1


def test_a_late_result_of_a_preempted_epoch_cannot_be_had_twice(driver: Driver) -> None:
    """The work of a step that arrives after the preemption is stale, however often it comes."""
    client = Client("a", PROMPT)
    driver.admit(client)
    driver.work(client)
    late = client.work()
    driver.step(releases=(client.ref(),))
    client.epoch = 1
    driver.admit(client)
    for _ in range(2):
        assert status(driver.step(work=(late,))) is WorkStatus.STALE
    driver.work(client)
    assert client.committed == plain_decode(MODEL, PROMPT, SamplingParams(0.0, max_tokens=2))[0]


def test_drafts_from_before_a_preemption_change_nothing(driver: Driver) -> None:
    text = KnownText(PROMPT + plain_decode(MODEL, PROMPT, GREEDY, max_model_len=40)[0], 16)
    client = Client("a", PROMPT, drafter=text.oracle)
    driver.admit(client)
    driver.work(client)
    old = client.work()
    driver.step(releases=(client.ref(),))
    client.epoch += 1
    driver.admit(client)
    # The draft names the old epoch, then the right epoch with a length that is no longer known.
    assert status(driver.step(work=(old,))) is WorkStatus.STALE
    driver.work(client)
    assert status(driver.step(work=(replace(old, epoch=1),))) is WorkStatus.STALE
    driver.work(client)
    assert client.tokens == text.text[: len(client.tokens)]


def test_a_newer_admission_replaces_an_older_one(driver: Driver) -> None:
    client = Client("a", PROMPT)
    driver.admit(client)
    driver.work(client)
    client.epoch = 1
    driver.admit(client)
    assert len(driver.engine.sequences) == 1
    driver.work(client)
    assert len(client.committed) == 2


def test_an_admission_of_the_same_or_an_older_epoch_is_ignored(driver: Driver) -> None:
    client = Client("a", PROMPT, epoch=1)
    driver.admit(client)
    driver.work(client)
    driver.step(admissions=(replace(client.admission(), token_ids=(1, 2), num_prompt_tokens=1),))
    driver.step(admissions=(replace(client.admission(), epoch=0),))
    driver.work(client)
    assert client.committed == plain_decode(MODEL, PROMPT, SamplingParams(0.0, max_tokens=2))[0]


def test_a_release_frees_and_one_of_an_older_epoch_does_not(driver: Driver) -> None:
    client = Client("a", PROMPT, epoch=1)
    driver.admit(client)
    driver.work(client)
    driver.step(releases=(SequenceRef("a", 0),))
    assert len(driver.engine.sequences) == 1
    driver.step(releases=(SequenceRef("a", 1),))
    assert len(driver.engine.sequences) == 0
    assert driver.engine.pool.num_in_use == 0


def test_a_release_and_the_next_admission_may_share_a_step(driver: Driver) -> None:
    client = Client("a", PROMPT)
    driver.admit(client)
    driver.work(client)
    ref, client.epoch = client.ref(), 1
    outcome = driver.step(releases=(ref,), admissions=(client.admission(),), work=(client.work(),))
    client.apply(outcome.results[0])
    assert len(client.committed) == 2


def test_a_late_admission_after_its_release_is_ignored_for_a_while(
    driver: Driver, clock: FakeClock
) -> None:
    client = Client("a", PROMPT, epoch=1)
    driver.step(releases=(client.ref(),))
    for epoch in (0, 1):
        client.epoch = epoch
        outcome = driver.step(admissions=(client.admission(),), work=(client.work(),))
        assert outcome.cached_tokens == {"a": 0}
        assert status(outcome) is WorkStatus.NOT_FOUND
    client.epoch = 2
    outcome = driver.step(admissions=(client.admission(),), work=(client.work(),))
    assert status(outcome) is WorkStatus.DONE
    driver.step(releases=(client.ref(),))
    clock.now += 31
    client.epoch = 0
    outcome = driver.step(admissions=(client.admission(),), work=(client.work(),))
    assert status(outcome) is WorkStatus.DONE


def test_a_release_of_a_newer_epoch_ends_the_known_one_and_buries_the_newer(
    driver: Driver,
) -> None:
    client = Client("a", PROMPT)
    driver.admit(client)
    driver.step(releases=(SequenceRef("a", 1),))
    assert len(driver.engine.sequences) == 0
    client.epoch = 1
    assert (
        status(driver.step(admissions=(client.admission(),), work=(client.work(),)))
        is WorkStatus.NOT_FOUND
    )


def test_a_sequence_that_no_step_names_is_reclaimed(driver: Driver, clock: FakeClock) -> None:
    orphan, alive = Client("orphan", PROMPT), Client("alive", PROMPT)
    driver.admit(orphan, alive)
    for _ in range(4):
        clock.now += 4
        driver.work(alive)
    assert driver.engine.sequences.get("orphan") is None
    assert driver.engine.sequences.get("alive") is not None


def test_a_step_after_a_long_pause_keeps_the_sequences_it_names(
    driver: Driver, clock: FakeClock
) -> None:
    client = Client("a", PROMPT)
    driver.admit(client)
    clock.now += 100
    driver.work(client)
    assert len(client.committed) == 1


def test_periodic_reclaim_needs_no_step(driver: Driver, clock: FakeClock) -> None:
    driver.admit(Client("a", PROMPT))
    clock.now += 11
    driver.engine.reclaim()
    assert len(driver.engine.sequences) == 0
    driver.engine.check()


def admission_of(**changes: object) -> dict[str, object]:
    client = Client("b", PROMPT)
    return {"admissions": (replace(client.admission(), **changes),)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "error", "field"),
    [
        (admission_of(token_ids=()), InvalidArgument, "admissions.token_ids"),
        (admission_of(token_ids=(1, 16)), InvalidArgument, "admissions.token_ids"),
        (admission_of(token_ids=(-1, 1)), InvalidArgument, "admissions.token_ids"),
        (admission_of(token_ids=(1,) * 256), ContextLength, "admissions.token_ids"),
        (admission_of(token_ids=(1,) * 6000), ContextLength, "admissions.token_ids"),
        (admission_of(num_prompt_tokens=0), InvalidArgument, "admissions.num_prompt_tokens"),
        (admission_of(num_prompt_tokens=10), InvalidArgument, "admissions.num_prompt_tokens"),
        (
            admission_of(num_prompt_tokens=4, sampling=SamplingParams(max_tokens=5)),
            InvalidArgument,
            "sampling.max_tokens",
        ),
        (admission_of(sampling=SamplingParams(top_p=0.0)), InvalidArgument, "top_p"),
        (
            admission_of(sampling=SamplingParams(stop_token_ids=frozenset({16}))),
            InvalidArgument,
            "stop_token_ids",
        ),
        (
            {"work": (replace(Client("a", PROMPT).work(), max_pending_rows=0),)},
            InvalidArgument,
            "work.max_pending_rows",
        ),
        ({"work": (Client("a", PROMPT).work(),) * 2}, InvalidArgument, "work.request_id"),
    ],
)
def test_a_refused_step_names_the_field_and_changes_nothing(
    driver: Driver, plan: dict[str, object], error: type[InvalidArgument], field: str
) -> None:
    client = Client("a", PROMPT)
    driver.admit(client)
    with pytest.raises(error) as raised:
        driver.step(**{"releases": (client.ref(),), **plan})
    assert raised.value.field == field
    assert driver.engine.sequences.get("b") is None
    driver.work(client)
    assert len(client.committed) == 1


def test_the_longest_prompt_yields_one_token() -> None:
    driver = Driver(fake_engine(max_model_len=12)[0])
    client = Client("a", [1] * 11)
    driver.run(client)
    assert len(client.committed) == 1
    with pytest.raises(ContextLength) as raised:
        driver.admit(Client("b", [1] * 12))
    assert raised.value.metadata == {
        "field": "admissions.token_ids",
        "limit": "11",
        "given": "12",
    }


def test_refused_work_says_which_epoch_an_admission_must_exceed(driver: Driver) -> None:
    driver.admit(Client("held", PROMPT, epoch=7))
    driver.step(releases=(Client("released", PROMPT, epoch=9).ref(),))
    work = tuple(Client(name, PROMPT, epoch=2).work() for name in ("held", "released", "unknown"))
    results = driver.step(work=work).results
    assert [result.known_epoch for result in results] == [7, 9, 0]
