"""What to start: the command line, address and environment of each service."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dspark.cli.models.model_config import config_number
from dspark.cli.models.prepare import PreparedModel
from dspark.cli.services_config import ServicesConfig
from dspark.config import to_arguments

# Settings of services that are deployed one by one, and what stands for their absence.
DEPLOYMENT_VARIABLES = {
    "DSPARK_TLS_CERT": "",
    "DSPARK_TLS_KEY": "",
    "DSPARK_TLS_CA": "",
    "DSPARK_HTTP_TLS_CERT": "",
    "DSPARK_HTTP_TLS_KEY": "",
    "DSPARK_API_KEYS_FILE": "",
    "DSPARK_METRICS_PORT": "0",
    "DSPARK_HEALTH_PORT": "0",
}
# Glibc would keep a heap for each of many threads, with what it held at its worst.
# gRPC would start threads in each fork, which may die of them before it is another program.
PROCESS_VARIABLES = {"MALLOC_ARENA_MAX": "2", "GRPC_ENABLE_FORK_SUPPORT": "0"}
# Pools of threads for products of matrices would go on spinning on the verifier's cores.
SINGLE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
# Whoever stops a server by hand does not wait for long answers to end.
_DRAIN_S = 2.0


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One child process; its gRPC server says at ``address`` whether ``health_name`` is ready."""

    name: str
    module: str
    address: str
    health_name: str
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where clients reach the gateway: ``host:port`` or ``unix:/path``."""

    http: str
    grpc: str


def service_specs(
    config: ServicesConfig, model: PreparedModel, addresses: Addresses, sockets: Path
) -> list[ServiceSpec]:
    """The services in the order in which they stop: whoever calls goes before whom it calls."""
    verifier, candidates, scheduler = (
        f"unix:{sockets / name}.sock" for name in ("verifier", "candidates", "scheduler")
    )
    return [
        _gateway(config, model, addresses, scheduler),
        _scheduler(config, scheduler, verifier, candidates),
        _candidates(config, model, candidates),
        _verifier(config, model, verifier),
    ]


def _gateway(
    config: ServicesConfig, model: PreparedModel, addresses: Addresses, scheduler: str
) -> ServiceSpec:
    settings = config.gateway(
        model_dir=str(model.directory),
        served_model_name=model.name,
        scheduler=(scheduler,),
        http=addresses.http,
        grpc=addresses.grpc,
        drain_s=_DRAIN_S,
    )
    given = config.given | {"http", "grpc"}
    return _spec("gateway", addresses.grpc, "InferenceService", settings, given)


def _scheduler(config: ServicesConfig, address: str, verifier: str, candidates: str) -> ServiceSpec:
    settings = config.scheduler(
        listen=address, verifier=(verifier,), candidates=(candidates,), drain_s=_DRAIN_S
    )
    return _spec("scheduler", address, "SchedulerService", settings, config.given)


def _candidates(config: ServicesConfig, model: PreparedModel, address: str) -> ServiceSpec:
    settings = config.candidates(
        listen=address,
        model=str(model.directory),
        model_id=model.name,
        vocab_size=config_number(model.directory, "vocab_size"),
        drain_s=_DRAIN_S,
    )
    environment = dict(SINGLE_THREAD)
    # The URL may hold a password, which must not show in the list of processes.
    if settings.redis_url is not None:
        environment["DSPARK_REDIS_URL"] = settings.redis_url
        settings = replace(settings, redis_url=None)
    return _spec("candidates", address, "CandidatesService", settings, config.given, environment)


def _verifier(config: ServicesConfig, model: PreparedModel, address: str) -> ServiceSpec:
    settings = config.verifier(
        model=str(model.directory),
        served_model_name=model.name,
        listen=address,
        drain_s=_DRAIN_S,
    )
    return _spec("verifier", address, "VerifierService", settings, config.given)


def _spec(
    name: str,
    address: str,
    service: str,
    settings: Any,
    given: Collection[str],
    environment: dict[str, str] | None = None,
) -> ServiceSpec:
    return ServiceSpec(
        name=name,
        module=f"dspark.{name}",
        address=address,
        health_name=f"dspark.v1.{service}",
        arguments=to_arguments(settings, given),
        # The sockets between the services are private, and nobody else is served unasked.
        environment=DEPLOYMENT_VARIABLES | PROCESS_VARIABLES | (environment or {}),
    )
