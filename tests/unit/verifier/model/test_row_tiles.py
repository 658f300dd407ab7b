"""Row tiles cover all rows with sizes of the set, and tiled matmuls equal whole ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dspark.verifier.model.linears import RowTiledLinear, RowTiles, replace_linears
from dspark.verifier.model.weight_format import WEIGHT_FORMATS, WeightFormat, weight_format

BF16 = WEIGHT_FORMATS["bf16"]


@pytest.mark.parametrize("sizes", [(16, 32, 64), (16,), (32, 128)])
@pytest.mark.parametrize("num_rows", [1, 15, 16, 17, 48, 63, 64, 65, 200])
def test_tiles_cover_the_rows(sizes: tuple[int, ...], num_rows: int) -> None:
    tiles = RowTiles(sizes).split(num_rows)
    assert set(tiles) <= set(sizes)
    assert num_rows <= sum(tiles) < num_rows + sizes[0]


@pytest.mark.parametrize("num_rows", [1, 16, 21, 70])
def test_tiled_equals_whole(num_rows: int) -> None:
    linear = nn.Linear(12, 7)
    tiled = RowTiledLinear(linear, BF16, RowTiles((16, 32)))
    rows = torch.randn(1, num_rows, 12)
    with torch.inference_mode():
        torch.testing.assert_close(tiled(rows), linear(rows))


def test_an_empty_set_means_no_tiles() -> None:
    linear = nn.Linear(12, 7)
    tiles = RowTiles()
    rows = torch.randn(1, 5, 12)
    with torch.inference_mode():
        assert torch.equal(RowTiledLinear(linear, BF16, tiles)(rows), linear(rows))


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2)
        self.body = nn.Sequential(nn.Linear(2, 2))

    def get_output_embeddings(self) -> nn.Linear:
        return self.head


def test_replace_reaches_every_linear() -> None:
    model, forms = _Model(), []

    def make(linear: nn.Linear, form: WeightFormat) -> nn.Module:
        forms.append(form.name)
        return RowTiledLinear(linear, form, RowTiles())

    replace_linears(model, weight_format("int4", torch.float32), make)
    kinds = [type(m) for m in model.modules() if not list(m.children())]
    assert kinds == [RowTiledLinear, RowTiledLinear]
    assert forms == ["int8", "int4"]
