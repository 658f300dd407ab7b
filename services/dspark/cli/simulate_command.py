"""``dspark simulate``: how the scheduler does on other machines and loads, in virtual time."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from dspark.cli.failure import CliError
from dspark.cli.json_output import check_writable, write_json
from dspark.cli.progress import Progress
from dspark.cli.simulate.calibration_record import read_record
from dspark.cli.simulate.config import SimulateConfig
from dspark.cli.simulate.experiment import Experiment
from dspark.cli.simulate.known_systems import KNOWN_SYSTEMS
from dspark.cli.simulate.load import Outcome
from dspark.cli.simulate.measured import measured_verifier
from dspark.cli.simulate.plot import write_page
from dspark.cli.simulate.results import Targets, report
from dspark.cli.simulate.scheduler_settings import add_scheduler_arguments, scheduler_config
from dspark.cli.simulate.sweep import loads_of
from dspark.cli.simulate.system import System, read_system, system_to_json
from dspark.cli.simulate.table import refusals, results_table
from dspark.config import add_arguments, flag_of, from_namespace

NAME = "simulate"
HELP = "simulate the scheduler under load on machines that are not here"
_USAGE = 2


def add_parser(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, SimulateConfig)
    group = parser.add_argument_group(
        "scheduler", "Settings of the scheduler, with the meaning that they have for the service."
    )
    add_scheduler_arguments(group)


def run(arguments: argparse.Namespace) -> int:
    config = from_namespace(SimulateConfig, arguments)
    for flag in ("json", "write_system", "plot"):
        if path := getattr(config, flag):
            check_writable(Path(path), flag_of(flag))
    system = system_of(config)
    if config.write_system:
        write_json(Path(config.write_system), system_to_json(system), "--write-system")
    began = time.perf_counter()
    reports = simulate(config, system, arguments, Progress())
    Console(soft_wrap=False).print(results_table(reports, config.level_name))
    for line in refusals(reports):
        print(line)
    print(f"simulated in {time.perf_counter() - began:.1f} s: {system.description}")
    if config.json:
        write_json(Path(config.json), {"system": system.description, "runs": reports})
    if config.plot:
        about = f"{system.description}; the load is {config.level_name}"
        write_page(Path(config.plot), reports, about)
    return 0


def system_of(config: SimulateConfig) -> System:
    """What is to be simulated. Raises CliError."""
    if config.calibrate_from is not None:
        system = read_record(Path(config.calibrate_from))
    elif config.system in KNOWN_SYSTEMS:
        system = KNOWN_SYSTEMS[config.system]()
    else:
        system = read_system(Path(config.system))
    if config.measure is not None:
        verifier = asyncio.run(measured_verifier(config.measure, system.verifier))
        about = f"{system.description}; passes as measured at {config.measure}"
        system = dataclasses.replace(system, verifier=verifier, description=about)
    return system


def simulate(
    config: SimulateConfig, system: System, arguments: argparse.Namespace, progress: Progress
) -> list[dict[str, Any]]:
    """A report of each policy at each load; raises CliError for a load that none can serve."""
    targets = Targets(config.ttft_target_ms, config.tpot_target_ms)
    reports = []
    for policy in config.policies:
        settings = scheduler_config(arguments, policy, config.workers)
        experiment = Experiment(system, config.worker_speeds, settings, config.seed)
        for level, load in loads_of(config):
            with progress.part(f"policy {policy}, {level:g} {config.level_name}"):
                done = experiment.run(load, level)
            _check_served(done.outcomes)
            reports.append(report(done, targets))
    return reports


def _check_served(outcomes: Sequence[Outcome]) -> None:
    if all(each.error for each in outcomes):
        raise CliError(
            f"none of the {len(outcomes)} requests was served: {outcomes[0].problem}", _USAGE
        )
