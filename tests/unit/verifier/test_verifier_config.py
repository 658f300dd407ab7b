"""Settings: names, defaults and refusals."""

from __future__ import annotations

import pytest

from dspark.config import parse, to_arguments
from dspark.verifier.config import VerifierConfig
from dspark.verifier.engine_settings import EngineSettings


def test_the_served_name_is_the_last_part_of_the_model_unless_given() -> None:
    assert VerifierConfig(model="/models/smol/").model_id == "smol"
    assert VerifierConfig(model="org/name").model_id == "name"
    assert VerifierConfig(model="x.gguf", served_model_name="n").model_id == "n"


def test_the_pool_is_whole_blocks_and_a_quarter_of_it_is_kept() -> None:
    config = VerifierConfig(model="m", kv_tokens=1000, block_size=16)
    assert (config.num_blocks, config.num_evictable_blocks) == (62, 15)
    assert VerifierConfig(model="m", prefix_cache_blocks=0).num_evictable_blocks == 0
    settings = EngineSettings.of(config, model_digest="d", kernel_class="k")
    assert (settings.num_blocks, settings.num_evictable_blocks) == (62, 15)
    assert (settings.model_digest, settings.kernel_class) == ("d", "k")


@pytest.mark.parametrize(
    ("setting", "device", "computes"),
    [
        ("auto", "cpu", False),
        ("auto", "cuda", True),
        ("auto", "cuda:1", True),
        ("on", "cpu", True),
        ("off", "cuda", False),
    ],
)
def test_passes_are_computed_ahead_where_they_leave_the_cpu_alone(
    setting: str, device: str, computes: bool
) -> None:
    config = VerifierConfig(model="m", compute_ahead=setting)
    assert config.computes_ahead(device) is computes


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--block-size", "0"),
        ("--kv-tokens", "15"),
        ("--max-model-len", "-1"),
        ("--max-model-len", "65537"),
        ("--prefix-cache-blocks", "-2"),
        ("--lease-s", "0"),
        ("--stall-s", "-1"),
        ("--compute-ahead", "maybe"),
        ("--kernels", "magic"),
        ("--attention", "magic"),
        ("--device", "toaster"),
        ("--device", "cuda:x"),
        ("--early-pruning", "on"),
        ("--early-pruning", "0"),
        ("--early-pruning", "-1"),
    ],
)
def test_a_bad_setting_names_its_flag(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(VerifierConfig, "", ["--model", "m", f"{flag}={value}"])
    assert flag in capsys.readouterr().err


def test_a_child_process_gets_the_same_settings() -> None:
    config = VerifierConfig(model="m", listen="unix:/x", lease_s=1.5, exactness="fast")
    assert parse(VerifierConfig, "", to_arguments(config)) == config


def test_the_model_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(VerifierConfig, "", [])
    assert "DSPARK_MODEL" in capsys.readouterr().err
