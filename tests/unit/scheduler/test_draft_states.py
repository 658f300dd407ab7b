"""What a request that is new hopes for."""

from __future__ import annotations

from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams
from dspark.scheduler.draft_states import DraftStates
from dspark.scheduler.profiles import NUM_PROFILES
from dspark.scheduler.request import Request


def request(name: str, temperature: float) -> Request:
    return Request(RequestSpec(name, (1,), SamplingParams(temperature=temperature)), 0)


def test_it_hopes_for_what_requests_got_that_are_drawn_as_freely() -> None:
    states = DraftStates(mute_after=2, mute_steps=10, max_nodes=3)
    greedy, free = request("greedy", 0.0), request("free", 1.0)
    for _ in range(NUM_PROFILES):
        states.remember(states.of(greedy, 0), [0.9, 0.8])
        states.remember(states.of(free, 0), [0.1])
    assert set(states.of(request("another", 0.0), 1).profiles.latest()) == {(0.9, 0.8)}
    assert set(states.of(request("freer", 0.9), 1).profiles.latest()) == {(0.1,)}
    unheard_of = states.of(request("freest", 2.0), 1).profiles.latest()
    assert len(unheard_of) == 1 and len(unheard_of[0]) == 3
