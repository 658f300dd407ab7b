"""The packed linear kernel against torch, and its independence of the number of rows."""

from __future__ import annotations

import pytest
import torch

from dspark.verifier.model.weight_format import weight_format
from dspark.verifier.native.library import Team
from dspark.verifier.native.packing import interleave_gate_up, linear, pack, pack_int4, pack_int8

SHAPES = [(1, 1), (5, 7), (16, 16), (33, 31), (100, 64), (64, 129)]


@pytest.fixture(scope="module")
def team() -> Team:
    return Team(2)


# Rounding of activations to 16 bits shows in codes only: each is off by up to 2^-16 of the largest.
TOLERANCES = {"bf16": 1e-4, "fp32": 1e-4, "int8": 2e-3, "int4": 2e-3}


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_torch(team: Team, shape: tuple[int, int], name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    form = weight_format(name, torch.float32)
    weight = torch.randn(shape, generator=generator).to(form.load_dtype or torch.float32)
    bias = torch.randn(shape[0], generator=generator)
    packed = form.pack(weight, bias)
    for num_rows in (1, 2, 3, 6, 7, 13):
        rows = torch.randn(num_rows, shape[1], generator=generator)
        values = form.values(weight).double()
        expected = torch.nn.functional.linear(rows.double(), values, bias.double())
        torch.testing.assert_close(
            linear(team, packed, rows).double(), expected, rtol=1e-5, atol=TOLERANCES[name]
        )


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("shape", [(33, 31), (96, 576)])
def test_rows_do_not_depend_on_their_neighbours(
    team: Team, shape: tuple[int, int], name: str
) -> None:
    form = weight_format(name, torch.float32)
    packed = form.pack(torch.randn(shape).to(form.load_dtype or torch.float32), None)
    rows = torch.randn(200, shape[1])
    alone = torch.cat([linear(team, packed, row[None]) for row in rows])
    for num_rows in (*range(1, 41), 96, 97, 200):
        assert torch.equal(linear(team, packed, rows[:num_rows]), alone[:num_rows])


def test_the_number_of_threads_does_not_matter(team: Team) -> None:
    packed = pack(torch.randn(200, 64).bfloat16())
    rows = torch.randn(5, 64)
    assert torch.equal(linear(team, packed, rows), linear(Team(1), packed, rows))
    assert torch.equal(linear(team, packed, rows), linear(Team(3), packed, rows))


def test_rows_of_the_wrong_size_are_refused(team: Team) -> None:
    with pytest.raises(ValueError, match=r"\(2, 5\).*\[\*, 4\]"):
        linear(team, pack(torch.randn(3, 4)), torch.randn(2, 5))


def test_sums_of_the_largest_codes_do_not_overflow(team: Team) -> None:
    codes = torch.full((1, 4096), 127, dtype=torch.int8)
    packed = pack_int8(codes, torch.full((1, 64), 0.5).bfloat16())
    result = linear(team, packed, torch.full((1, 4096), 3.0))
    torch.testing.assert_close(result, torch.tensor([[4096 * 127 * 0.5 * 3.0]]))


def test_sums_of_the_largest_int4_codes_do_not_overflow(team: Team) -> None:
    codes = torch.full((1, 4096), 15, dtype=torch.uint8)
    packed = pack_int4(codes, torch.full((1, 128), 0.5).half(), torch.full((1, 128), -4.0).half())
    result = linear(team, packed, torch.full((1, 4096), 3.0))
    expected = torch.tensor([[4096 * (15 * 0.5 - 4.0) * 3.0]])
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", ["int8", "int4"])
def test_rows_of_zeros_give_the_bias(team: Team, name: str) -> None:
    packed = weight_format(name, torch.float32).pack(torch.randn(5, 70), torch.arange(5.0))
    assert torch.equal(linear(team, packed, torch.zeros(2, 70)), torch.arange(5.0).expand(2, 5))


@pytest.mark.parametrize(
    ("codes", "scales"),
    [
        (torch.zeros(2, 65, dtype=torch.int8), torch.zeros(2, 1).bfloat16()),
        (torch.zeros(2, 64), torch.zeros(2, 1).bfloat16()),
        (torch.zeros(2, 64, dtype=torch.int8), torch.zeros(2, 1)),
    ],
)
def test_codes_and_scales_must_fit(codes: torch.Tensor, scales: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="scales"):
        pack_int8(codes, scales)


@pytest.mark.parametrize(
    ("codes", "scales", "smallest"),
    [
        (torch.zeros(2, 33).byte(), torch.zeros(2, 1).half(), torch.zeros(2, 1).half()),
        (torch.zeros(2, 32).byte(), torch.zeros(2, 1).half(), torch.zeros(2, 2).half()),
        (torch.zeros(2, 32), torch.zeros(2, 1).half(), torch.zeros(2, 1).half()),
        (torch.zeros(2, 32).byte(), torch.zeros(2, 1), torch.zeros(2, 1).half()),
        (torch.zeros(2, 32).byte(), torch.zeros(2, 1).half(), torch.zeros(2, 1)),
    ],
)
def test_int4_codes_and_scales_must_fit(
    codes: torch.Tensor, scales: torch.Tensor, smallest: torch.Tensor
) -> None:
    with pytest.raises(ValueError, match="scales"):
        pack_int4(codes, scales, smallest)


def test_no_rows_give_no_rows(team: Team) -> None:
    assert linear(team, pack(torch.randn(3, 4)), torch.empty(0, 4)).shape == (0, 3)


@pytest.mark.parametrize("size", [16, 20])
def test_gate_and_up_rows_come_in_turns_of_sixteen(size: int) -> None:
    gate = torch.arange(size).float()[:, None] + 1
    merged = interleave_gate_up(gate, -gate)[:, 0]
    padded = -(-size // 16) * 16
    assert merged.shape == (2 * padded,)
    turns = merged.view(-1, 2, 16)
    assert torch.equal(turns[:, 0].reshape(-1)[:size], gate[:, 0])
    assert torch.equal(turns[:, 1].reshape(-1)[:size], -gate[:, 0])
    assert not turns[:, 0].reshape(-1)[size:].any()
