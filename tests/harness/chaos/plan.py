"""Which processes a fleet has, and their command lines."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspark.candidates.config import CandidatesConfig
from dspark.cli.supervision.launch import launch_command
from dspark.config import to_arguments
from dspark.gateway.config import GatewayConfig
from dspark.scheduler.config import SchedulerConfig
from dspark.verifier.config import VerifierConfig

HASH_VERIFIER = "harness.chaos.hash_verifier"
REAL_VERIFIER = "dspark.verifier"
VOCAB_SIZE = 258
# Short enough that what an orphan holds is free again before a check gives up on it.
LEASE_S = 6.0
DRAIN_S = 20.0


@dataclass(frozen=True)
class FleetPlan:
    """How many of each service there are; all on unix sockets in ``folder``."""

    folder: Path
    model_dir: Path
    verifier_module: str = HASH_VERIFIER
    num_gateways: int = 1
    num_schedulers: int = 1
    num_verifiers: int = 2
    kv_tokens: int = 8192

    def socket(self, name: str) -> Path:
        """Where the process listens."""
        return self.folder / f"{name}.sock"

    def edge_socket(self, caller: str, name: str) -> Path:
        """Where callers of this kind reach it, through an edge that can go wrong."""
        return self.folder / f"{caller}-{name}.sock"

    @property
    def gateways(self) -> list[str]:
        return [f"gateway{i}" for i in range(self.num_gateways)]

    @property
    def schedulers(self) -> list[str]:
        return [f"scheduler{i}" for i in range(self.num_schedulers)]

    @property
    def verifiers(self) -> list[str]:
        return [f"verifier{i}" for i in range(self.num_verifiers)]

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Every pair of a calling kind and the process that it calls."""
        pairs = [("gateway", name) for name in self.schedulers]
        pairs += [("scheduler", name) for name in (*self.verifiers, "candidates")]
        return [*pairs, ("candidates", "redis")]

    def command(self, name: str) -> list[str]:
        """The command line of the process with this name."""
        kind = name.rstrip("0123456789")
        module, settings = {
            "gateway": ("dspark.gateway", self._gateway),
            "scheduler": ("dspark.scheduler", self._scheduler),
            "candidates": ("dspark.candidates", self._candidates),
            "verifier": (self.verifier_module, self._verifier),
        }[kind]
        return launch_command(module, to_arguments(settings(name)))

    def redis_command(self) -> list[str]:
        """A Redis that keeps nothing on disk and does not outlive this process."""
        tied = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        socket = str(self.socket("redis"))
        nothing_kept = ["--save", "", "--appendonly", "no", "--dir", str(self.folder)]
        return [*tied, "redis-server", "--port", "0", "--unixsocket", socket, *nothing_kept]

    def _listen(self, name: str) -> str:
        return f"unix:{self.socket(name)}"

    def _via(self, caller: str, names: list[str]) -> tuple[str, ...]:
        return tuple(f"unix:{self.edge_socket(caller, name)}" for name in names)

    def _gateway(self, name: str) -> Any:
        return GatewayConfig(
            model_dir=str(self.model_dir),
            scheduler=self._via("gateway", self.schedulers),
            http=f"unix:{self.socket(name + '-http')}",
            grpc=self._listen(name),
            # Load balancers look less often than that, and find it not ready.
            drain_pause_s=1.0,
            drain_s=DRAIN_S,
        )

    def _scheduler(self, name: str) -> Any:
        return SchedulerConfig(
            listen=self._listen(name),
            verifier=self._via("scheduler", self.verifiers),
            candidates=self._via("scheduler", ["candidates"]),
            # Guesses cost nothing here, so that accepted runs and faults meet as often as they can.
            policy="fixed",
            drain_s=2.0,
        )

    def _candidates(self, name: str) -> Any:
        return CandidatesConfig(
            listen=self._listen(name),
            vocab_size=VOCAB_SIZE,
            redis_url=f"unix://{self.edge_socket('candidates', 'redis')}",
            lease_s=LEASE_S,
        )

    def _verifier(self, name: str) -> Any:
        return VerifierConfig(
            model=str(self.model_dir),
            listen=self._listen(name),
            kv_tokens=self.kv_tokens,
            threads=1,
            lease_s=LEASE_S,
        )
