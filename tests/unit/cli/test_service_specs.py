"""The command lines of the services."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.cli.models.prepare import PreparedModel
from dspark.cli.serve_config import ServeConfig
from dspark.cli.services_config import ServicesConfig
from dspark.cli.supervision.spec import Addresses, ServiceSpec, service_specs
from dspark.config import add_arguments, from_namespace
from dspark.gateway.config import GatewayConfig
from dspark.scheduler.config import SchedulerConfig
from dspark.verifier.config import VerifierConfig

ADDRESSES = Addresses(http="127.0.0.1:8000", grpc="127.0.0.1:50051")
TYPES = {
    "gateway": GatewayConfig,
    "scheduler": SchedulerConfig,
    "candidates": CandidatesConfig,
    "verifier": VerifierConfig,
}


@pytest.fixture
def model(tmp_path: Path) -> PreparedModel:
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 97}))
    return PreparedModel("org/name", tmp_path)


def parsed(specs: list[ServiceSpec]) -> dict[str, Any]:
    """What each service makes of its command line."""
    configs = {}
    for spec in specs:
        parser = argparse.ArgumentParser()
        add_arguments(parser, TYPES[spec.name])
        arguments = parser.parse_args(spec.arguments)
        configs[spec.name] = from_namespace(TYPES[spec.name], arguments, spec.environment)
    return configs


def test_services_find_each_other(model: PreparedModel, tmp_path: Path) -> None:
    specs = service_specs(ServicesConfig(), model, ADDRESSES, tmp_path)
    assert [spec.name for spec in specs] == ["gateway", "scheduler", "candidates", "verifier"]
    configs = parsed(specs)
    assert configs["gateway"].scheduler == (configs["scheduler"].listen,)
    assert configs["scheduler"].verifier == (configs["verifier"].listen,)
    assert configs["scheduler"].candidates == (configs["candidates"].listen,)
    assert (configs["gateway"].http, configs["gateway"].grpc) == (ADDRESSES.http, ADDRESSES.grpc)
    assert configs["gateway"].model_name == configs["verifier"].model_id == "org/name"
    assert configs["verifier"].model == configs["gateway"].model_dir == str(model.directory)
    assert configs["candidates"].vocab_size == 97


def test_processes_keep_their_heaps_few_and_candidates_their_threads(
    model: PreparedModel, tmp_path: Path
) -> None:
    specs = service_specs(ServicesConfig(), model, ADDRESSES, tmp_path)
    assert {spec.environment["MALLOC_ARENA_MAX"] for spec in specs} == {"2"}
    single = {spec.name for spec in specs if spec.environment.get("OMP_NUM_THREADS") == "1"}
    assert single == {"candidates"}


def test_corpora_reach_the_candidates(model: PreparedModel, tmp_path: Path) -> None:
    given = ServicesConfig(
        sources=("recycle", "corpus:a", "corpus:b"), corpus=("a=/x y", "b=z"), redis_url="redis://h"
    )
    candidates = parsed(service_specs(given, model, ADDRESSES, tmp_path))["candidates"]
    assert candidates.sources == given.sources
    assert candidates.corpus_files == {"a": Path("/x y"), "b": Path("z")}
    assert candidates.redis_url == "redis://h"
    assert (candidates.model_id, candidates.vocab_size) == ("org/name", 97)


def test_parsers_reach_the_gateway(model: PreparedModel, tmp_path: Path) -> None:
    given = ServicesConfig(
        tool_parser="mistral", reasoning_parser="qwen3", allow_chat_template=True
    )
    gateway = parsed(service_specs(given, model, ADDRESSES, tmp_path))["gateway"]
    assert (gateway.tool_parser, gateway.reasoning_parser) == ("mistral", "qwen3")
    assert gateway.allow_chat_template
    with pytest.raises(ValueError, match="--tool-parser must be one of"):
        ServicesConfig(tool_parser="other")


def test_a_flag_wins_over_a_variable_even_as_the_default(
    model: PreparedModel, tmp_path: Path
) -> None:
    given = ServicesConfig(kv_tokens=65_536, policy="economic")
    specs = service_specs(given, model, ADDRESSES, tmp_path)
    others = {
        "DSPARK_KV_TOKENS": "4096",
        "DSPARK_POLICY": "off",
        "DSPARK_HTTP": "127.0.0.1:1",
        "DSPARK_THREADS": "1",
        "DSPARK_METRICS_PORT": "9000",
        "DSPARK_HEALTH_PORT": "9001",
    }
    for spec in specs:
        spec.environment.update(others | spec.environment)
    configs = parsed(specs)
    assert configs["verifier"].kv_tokens == 65_536
    assert configs["scheduler"].policy == "economic"
    assert configs["gateway"].http == ADDRESSES.http
    assert configs["verifier"].threads == 1
    for config in configs.values():
        assert (config.health_port, getattr(config, "metrics_port", 0)) == (0, 0)


def test_what_is_not_given_stays_at_the_service_s_default(
    model: PreparedModel, tmp_path: Path
) -> None:
    configs = parsed(service_specs(ServicesConfig(), model, ADDRESSES, tmp_path))
    assert configs["verifier"].kv_tokens == VerifierConfig(model="m").kv_tokens
    assert configs["candidates"].sources == CandidatesConfig().sources
    assert configs["candidates"].redis_url is None


def test_every_setting_reaches_its_service(model: PreparedModel, tmp_path: Path) -> None:
    config = ServeConfig(
        redis_url="redis://:secret@localhost/1",
        policy="fixed",
        num_draft_tokens=3,
        sources=("suffix",),
        kv_tokens=1024,
        block_size=8,
        max_num_seqs=2,
        max_model_len=100,
        exactness="fast",
        kernels="torch",
        weight_dtype="fp32",
    )
    specs = service_specs(config, model, ADDRESSES, tmp_path)
    configs = parsed(specs)
    scheduler, verifier = configs["scheduler"], configs["verifier"]
    assert (scheduler.policy, scheduler.num_draft_tokens, scheduler.max_num_seqs) == ("fixed", 3, 2)
    assert configs["candidates"].sources == ("suffix",)
    assert configs["candidates"].redis_url == "redis://:secret@localhost/1"
    assert (verifier.kv_tokens, verifier.block_size, verifier.max_model_len) == (1024, 8, 100)
    assert (verifier.exactness, verifier.kernels, verifier.weight_dtype) == (
        "fast",
        "torch",
        "fp32",
    )
    assert not any("secret" in argument for spec in specs for argument in spec.arguments)
