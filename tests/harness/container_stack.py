"""The stack of docker-compose.yml on a real engine, as one project that is removed at the end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.repository import ROOT

OFFLINE_IMAGES = {
    "BASE_IMAGE": "dspark-base",
    "BUILD_IMAGE": "dspark-build",
    "REDIS_IMAGE": "dspark-redis",
}
SERVICES = ("gateway", "scheduler", "candidates", "verifier", "redis")
_FILES = ("docker-compose.yml", "compose/observability.yml", "tests/e2e/spans.yml")
# A client that can build with an engine older than its own plugins stands behind another on PATH.
_CLIENT_FOLDERS = ("/usr/bin", "/usr/local/bin")


def engine_problem() -> str | None:
    """Why no stack can be started here, in words; None if one can."""
    if compose_command() is None:
        return "neither docker compose nor docker-compose is installed"
    if (shown := docker("version", "--format", "{{.Server.Version}}")).returncode:
        return f"no Docker engine answers: {_last_line(shown.stderr)}"
    if wheelhouse_settings():
        return None
    if (pulled := docker("pull", "--quiet", "python:3.11-slim")).returncode:
        return f"no registry and no base images of compose/offline: {_last_line(pulled.stderr)}"
    return None


def compose_command() -> list[str] | None:
    """The installed form of Docker Compose."""
    if not docker("compose", "version").returncode:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


def wheelhouse_settings() -> dict[str, str]:
    """What builds from the images and wheels of compose/offline; empty where they are not made."""
    wheels = list((ROOT / "compose" / "offline" / "wheelhouse").glob("torch-*.whl"))
    if not wheels or docker("image", "inspect", *OFFLINE_IMAGES.values()).returncode:
        return {}
    return OFFLINE_IMAGES | {"PIP_NO_INDEX": "1", "TORCH_INDEX": ""}


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the client; an absent one is a failure like any other."""
    try:
        return subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, env=_environment({})
        )
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(arguments, 127, "", str(error))


@dataclass(frozen=True)
class ContainerStack:
    """A project of containers; ``settings`` are what .env would hold."""

    project: str
    settings: Mapping[str, str]
    command: list[str] = field(default_factory=lambda: compose_command() or [])

    def compose(self, *arguments: str, check: bool = True) -> str:
        """Run a command of Docker Compose; returns stdout, fails with all that was printed."""
        files = [part for name in _FILES for part in ("-f", str(ROOT / name))]
        done = subprocess.run(
            [*self.command, "-p", self.project, *files, *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=_environment(self.settings),
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def container(self, service: str) -> dict[str, Any]:
        """What the engine knows of the service's container."""
        ids = docker(
            "ps", "-aq", *_label(self.project), *("--filter", f"{_SERVICE_LABEL}={service}")
        ).stdout.split()
        assert len(ids) == 1, f"{service}: {ids}"
        (known,) = json.loads(docker("inspect", ids[0]).stdout)
        assert isinstance(known, dict)
        return known

    def shell(self, service: str, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script inside the service's container, as the container's own user."""
        return docker("exec", self.container(service)["Id"], "sh", "-c", script)

    def is_healthy(self, service: str) -> bool:
        state = self.container(service)["State"]
        return bool(state["Running"] and state["Health"]["Status"] == "healthy")

    def logs(self, service: str) -> str:
        done = docker("logs", self.container(service)["Id"])
        return done.stdout + done.stderr

    def leftovers(self) -> list[str]:
        """Containers, networks and volumes of the project."""
        return [
            name
            for listing in (["ps", "-aq"], ["network", "ls", "-q"], ["volume", "ls", "-q"])
            for name in docker(*listing, *_label(self.project)).stdout.split()
        ]


@contextmanager
def container_stack(project: str, settings: Mapping[str, str]) -> Iterator[ContainerStack]:
    """Build the images, start, and take all of it down however the block ends."""
    stack = ContainerStack(project, settings)
    stack.compose("build", "gateway", "scheduler", "candidates", "verifier", "model")
    try:
        stack.compose("up", "-d", *SERVICES, "spans")
        yield stack
    finally:
        stack.compose("down", "--volumes")


def eventually(condition: Callable[[], bool], timeout_s: float, why: Callable[[], str]) -> None:
    """Wait until the condition holds; fails with what ``why`` says."""
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_at, why()
        time.sleep(0.5)


_SERVICE_LABEL = "label=com.docker.compose.service"


def _label(project: str) -> tuple[str, str]:
    return ("--filter", f"label=com.docker.compose.project={project}")


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join([*_CLIENT_FOLDERS, os.environ.get("PATH", "")])
    build = {"DOCKER_BUILDKIT": "1", "COMPOSE_DOCKER_CLI_BUILD": "1"}
    return os.environ | build | {"PATH": path} | dict(settings)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]
