"""Systems from files and by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dspark.cli.failure import CliError
from dspark.cli.simulate.fleet import faster
from dspark.cli.simulate.known_systems import KNOWN_SYSTEMS
from dspark.cli.simulate.pass_costs import pass_cost
from dspark.cli.simulate.system import read_system, system_to_json
from harness.simulations import system

H200 = KNOWN_SYSTEMS["h200-8b"]()


@pytest.mark.parametrize("whole", [H200, system(), system(None)])
def test_a_system_comes_back_from_its_file(tmp_path: Path, whole: Any) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(system_to_json(whole)))
    assert read_system(path) == whole


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"verifier": {"num_blocks": 0}}, r"system\.verifier num_blocks must be at least 1"),
        ({"verifier": {"num_blocks": 1.5}}, r"system\.verifier\.num_blocks must be of type int"),
        ({"verifier": {"num_blocks": 5}}, "one of verify_costs and roofline"),
        ({"verifier": {"blocks": 5}}, r"system\.verifier has no field 'blocks'"),
        ({"verifier": []}, r"system\.verifier must be an object"),
        ({"scheduler": {"step_ms": -1}}, r"system\.scheduler step_ms must be at least 0"),
        ({"candidates": {}}, "one of sources and recorded"),
        (
            {"candidates": {"sources": [{"name": "a", "acceptance": [2]}]}},
            r"sources\[0\] acceptance and further must be probabilities",
        ),
        ({"candidates": {"sources": {}}}, "sources must be a list"),
        ({"candidates": {"sources": [{"name": "a"}]}}, "lacks a field"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(system_to_json(system()) | change))
    with pytest.raises(CliError, match=problem):
        read_system(path)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{")
    with pytest.raises(CliError, match="--system"):
        read_system(tmp_path / "s.json")


def test_the_roofline_of_the_h200_is_that_of_its_data_sheet() -> None:
    """8.03 billion parameters, of which 7.5 are read in a pass, at 3.6 TB/s."""
    roofline = H200.verifier.roofline
    assert roofline is not None
    assert roofline.num_parameters == pytest.approx(8.03e9, rel=0.001)
    assert roofline.kv_bytes_per_token == 131072
    one_row = roofline.num_multiplied_parameters * 2 / 3.6e12 * 1e3 + roofline.launch_ms
    assert roofline.ms([(1, 0)]) == pytest.approx(one_row)
    # A hundred rows are as fast as one; from some hundred on, operations are what counts.
    assert roofline.ms([(100, 0)]) == pytest.approx(one_row)
    assert roofline.ms([(2000, 0)]) - roofline.launch_ms == pytest.approx(
        2 * roofline.num_multiplied_parameters * 2000 / (1979e12 / 2 * 0.6) * 1e3
    )
    # Each sequence's K/V is read.
    more = roofline.ms([(1, 1000)] * 32) - one_row
    assert more == pytest.approx(32 * 1000 * 131072 / 3.6e12 * 1e3)


@pytest.mark.parametrize("model", [H200.verifier, system().verifier])
def test_a_slower_worker_takes_longer_for_every_pass(model: Any) -> None:
    slow = faster(model, 0.25)
    for parts in ([(1, 100)], [(1, 50)] * 40, [(300, 300)]):
        assert pass_cost(slow).ms(parts) == pytest.approx(4 * pass_cost(model).ms(parts))
    assert slow.known_costs[0].milliseconds == pytest.approx(4 * model.known_costs[0].milliseconds)
