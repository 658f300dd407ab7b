"""The scheduler's own settings as flags of a simulation."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import fields
from typing import Any, get_type_hints

from dspark.cli.simulate.fleet import addresses
from dspark.config import add_arguments, from_namespace
from dspark.scheduler.config import SchedulerConfig
from dspark.telemetry.logs import LogSettings
from dspark.transport_security.settings import BackendTransportSettings

# Where it listens and whom it calls means nothing without a network; policies are compared, so they
# are a flag of the simulation; and what is written or learnt is of one run, not of many.
_LEFT_OUT = frozenset(
    {"verifier", "candidates", "listen", "policy", "metrics_port", "allow_peers", "drain_s"}
    | {"record_calls", "decision_log", "calibration_file"}
    | {each.name for kind in (BackendTransportSettings, LogSettings) for each in fields(kind)}
)


def _flags() -> type[Any]:
    """A config of the settings that matter here, with the scheduler's defaults and help."""
    hints = get_type_hints(SchedulerConfig)
    return dataclasses.make_dataclass(
        "SchedulerFlags",
        [
            (
                each.name,
                hints[each.name],
                dataclasses.field(default=each.default, metadata=each.metadata),
            )
            for each in fields(SchedulerConfig)
            if each.name not in _LEFT_OUT
        ],
        frozen=True,
    )


def _copy_of(field: dataclasses.Field[Any]) -> Any:
    return dataclasses.field(default=field.default, metadata=field.metadata)


SchedulerFlags = _flags()


def add_scheduler_arguments(group: argparse._ArgumentGroup) -> None:
    """A flag for each setting of the scheduler that has an effect in a simulation."""
    add_arguments(group, SchedulerFlags)


def scheduler_config(
    arguments: argparse.Namespace, policy: str, num_workers: int
) -> SchedulerConfig:
    """The settings that flags and environment give; raises SettingError."""
    given = from_namespace(SchedulerFlags, arguments)
    arguments = argparse.Namespace(
        **dataclasses.asdict(given),
        policy=policy,
        verifier=addresses(num_workers),
        candidates=addresses(num_workers, "candidates"),
    )
    return from_namespace(SchedulerConfig, arguments, environ={})
