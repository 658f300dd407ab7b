"""The cost table: which points are measured, by a clock that the passes themselves move."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dspark.step import VerifyCost
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.model.cost_table import measure_costs

Cost = Callable[[int, int], float]


class TimedModel:
    """A pass of some rows over a context takes ``ms(rows, context)``, plus what is queued up."""

    def __init__(self, ms: Cost, *, hiccups: dict[int, float] | None = None) -> None:
        self.ms = ms
        self.now = 0.0
        self.passes: list[tuple[int, int]] = []
        self.touched: list[int] = []
        self.hiccups = hiccups or {}

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        rows, context = batch.num_rows, int(batch.prefix_lens[0])
        self.now += self.ms(rows, context) / 1e3 + self.hiccups.get(len(self.passes), 0.0)
        self.passes.append((rows, context))
        return np.empty((0, 1), dtype=np.float32)

    def measure(
        self, *, num_slots: int = 8192, max_rows: int = 64, max_len: int = 8192
    ) -> tuple[VerifyCost, ...]:
        return measure_costs(
            self.forward, num_slots, 16, max_rows, max_len, self.touched.append, lambda: self.now
        )


def linear(rows: int, context: int) -> float:
    return 10.0 + 0.5 * rows + 0.0001 * rows * context


def costs_at(points: tuple[VerifyCost, ...], context: int) -> dict[int, float]:
    return {point.rows: point.milliseconds for point in points if point.context == context}


def test_all_rows_at_all_contexts() -> None:
    points = TimedModel(linear).measure()
    for context in (64, 512, 2048):
        costs = costs_at(points, context)
        assert list(costs) == [1, 2, 4, 8, 16, 32, 64]
        for rows, ms in costs.items():
            assert ms == pytest.approx(linear(rows, context), abs=0.01)


def test_longer_contexts_take_three_passes_each() -> None:
    model = TimedModel(linear)
    model.measure()
    assert [p for p in model.passes if p[1] == 512] == [(1, 512), (16, 512), (64, 512)]
    assert model.touched == [512 + 64, 2048 + 64]


def test_a_slow_model_is_measured_at_the_short_context_alone() -> None:
    model = TimedModel(lambda rows, context: 200.0 + 5 * rows)
    assert {point.context for point in model.measure()} == {64}


def test_measuring_stops_before_it_takes_long() -> None:
    model = TimedModel(lambda rows, context: 20.0 + rows + 0.01 * rows * context)
    points = model.measure()
    assert {point.context for point in points} == {64, 512}
    spent = sum(model.ms(*each) for each in model.passes if each[1] > 64)
    assert spent < 1000


@pytest.mark.parametrize(
    ("limits", "contexts"),
    [
        ({"max_len": 600}, {64, 512}),
        ({"max_len": 512}, {64}),
        ({"num_slots": 2048}, {64, 512}),
        ({"num_slots": 100}, {50}),
    ],
)
def test_what_the_pool_or_the_model_cannot_hold(limits: dict[str, int], contexts: set[int]) -> None:
    points = TimedModel(linear).measure(**limits)
    assert {point.context for point in points} == contexts


def test_few_rows_may_be_all_there_are() -> None:
    points = TimedModel(linear).measure(max_rows=1)
    assert [(point.rows, point.context) for point in points] == [(1, 64), (1, 512), (1, 2048)]


def test_a_hiccup_never_makes_more_cost_less() -> None:
    for index in range(20):
        points = TimedModel(linear, hiccups={index: 0.03}).measure()
        for context in (64, 512, 2048):
            costs = list(costs_at(points, context).values())
            assert costs == sorted(costs)
        by_rows = itertools.groupby(sorted(points), key=lambda point: point.rows)
        for _, same_rows in by_rows:
            times = [p.milliseconds for p in sorted(same_rows, key=lambda p: p.context)]
            assert times == sorted(times)
