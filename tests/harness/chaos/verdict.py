"""Holds what clients saw against the undisturbed run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.chaos.outcome import Answer, Outcome
from harness.chaos.stream_spec import StreamSpec

# A connection that breaks so soon after a gateway went was broken by that.
_EXCUSED_S = 8.0

Twins = Mapping[str, Answer]


@dataclass(frozen=True)
class Verdict:
    """``violations`` is empty when every promise was kept.

    ``longest_pause`` between two events of a stream has its length and when it began; the stream is
    ``patient``.
    """

    violations: tuple[str, ...]
    num_streams: int
    num_identical: int
    num_hung_up: int
    num_retried: int
    longest_pause: tuple[float, float]
    patient: str


def make_twins(outcomes: Iterable[Outcome]) -> dict[str, Answer]:
    """The undisturbed answers by name; raises RuntimeError if one is none."""
    twins = {}
    for outcome in outcomes:
        if outcome.error is not None or outcome.broken:
            raise RuntimeError(f"{outcome.spec.name} failed undisturbed: {outcome.error}")
        twins[outcome.spec.name] = outcome.answer
    return twins


def judge(outcomes: Sequence[Outcome], twins: Twins, gateway_downs: Sequence[float]) -> Verdict:
    """``gateway_downs`` has the times at which a gateway was taken from its clients."""
    violations: list[str] = []
    for outcome in outcomes:
        violations += _violations(outcome, twins[outcome.spec.name], gateway_downs)
    waited = [o for o in outcomes if not o.hung_up and o.spec.front != "whole"]
    patient = max(waited, key=lambda o: o.answer.longest_pause, default=None)
    return Verdict(
        violations=tuple(violations),
        num_streams=len(outcomes),
        num_identical=sum(
            outcome.answer.essence == twins[outcome.spec.name].essence for outcome in outcomes
        ),
        num_hung_up=sum(outcome.hung_up for outcome in outcomes),
        num_retried=sum(bool(outcome.broken) for outcome in outcomes),
        longest_pause=patient.answer.longest_pause if patient else (0.0, 0.0),
        patient=patient.spec.name if patient else "",
    )


def _violations(outcome: Outcome, twin: Answer, gateway_downs: Sequence[float]) -> list[str]:
    found = []
    if outcome.error is not None:
        found.append(outcome.error)
    for broken_at, answer in outcome.broken:
        if not any(answer.started_at - _EXCUSED_S < at <= broken_at for at in gateway_downs):
            found.append("its connection broke though no gateway went")
        found += _difference(answer, twin)
    if outcome.error is not None or outcome.hung_up:
        found += _difference(outcome.answer, twin)
    elif outcome.answer.essence != twin.essence:
        found += _difference(outcome.answer, twin) or [_short_of(outcome.answer, twin)]
    return [f"{_words_for(outcome.spec)}: {what}" for what in found]


def _difference(answer: Answer, twin: Answer) -> list[str]:
    """Where the answer, which may be a beginning only, leaves the twin."""
    if answer.token_ids != twin.token_ids[: len(answer.token_ids)]:
        pairs = zip(answer.token_ids, twin.token_ids, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), len(twin.token_ids))
        return [f"token {at} of {len(answer.token_ids)} differs from the undisturbed run"]
    if not twin.text.startswith(answer.text):
        return ["the text differs from the undisturbed run"]
    return []


def _short_of(answer: Answer, twin: Answer) -> str:
    return (
        f"ended as {answer.finish_reason} ({answer.stop_reason!r}) with {len(answer.token_ids)} "
        f"tokens, {answer.completion_tokens} counted; undisturbed as {twin.finish_reason} "
        f"({twin.stop_reason!r}) with {len(twin.token_ids)}"
    )


def _words_for(spec: StreamSpec) -> str:
    return f"{spec.name} ({spec.front}, temperature {spec.temperature:g})"
