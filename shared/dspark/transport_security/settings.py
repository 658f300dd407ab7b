"""Settings that all services have for the connections between them."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.config import setting
from dspark.transport_security.tls_files import TlsFiles

DEFAULT_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
ALLOW_PEERS_HELP = (
    "who may call this service under mTLS: service names or whole SPIFFE ids, comma-separated"
)


@dataclass(frozen=True, slots=True)
class ServerTransport:
    """How a gRPC server is reached.

    With ``tls``, ``allowed_peers`` are the identities whose calls are answered; with None nobody is
    asked for a certificate. ``health_port`` serves health alone, unencrypted. A public server is
    on its guard against strangers.
    """

    tls: TlsFiles | None = None
    allowed_peers: frozenset[str] | None = None
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    health_port: int = 0
    is_public: bool = False


PLAIN = ServerTransport()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings:
    """To be inherited by a service's config, which calls ``check_transport`` when it is made."""

    tls_cert: str = setting("", "PEM file of this service's certificate, for mTLS; empty: no TLS")
    tls_key: str = setting("", "PEM file of the certificate's key; empty: no TLS")
    tls_ca: str = setting(
        "", "PEM file of the authorities that sign the certificates of peers; empty: no TLS"
    )
    health_port: int = setting(0, "port of gRPC health alone, without TLS, for probes; 0: none")

    def check_transport(self) -> None:
        """Raises ValueError."""
        check_all_or_none(tls_cert=self.tls_cert, tls_key=self.tls_key, tls_ca=self.tls_ca)
        check_port(health_port=self.health_port)

    @property
    def tls(self) -> TlsFiles | None:
        """The files of mTLS; None means connections without TLS."""
        return TlsFiles(self.tls_cert, self.tls_key, self.tls_ca) if self.tls_cert else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendTransportSettings(TransportSettings):
    """Of a service that only other services call."""

    max_message_bytes: int = setting(
        DEFAULT_MAX_MESSAGE_BYTES, "size of the largest message of a call"
    )

    def check_transport(self) -> None:
        TransportSettings.check_transport(self)
        if self.max_message_bytes < 1:
            raise ValueError("--max-message-bytes must be at least 1")

    def serving(self, allow_peers: tuple[str, ...]) -> ServerTransport:
        """How its server is reached; raises ValueError if nobody may call it."""
        if not allow_peers:
            raise ValueError("--allow-peers names nobody")
        return ServerTransport(
            self.tls, frozenset(allow_peers), self.max_message_bytes, self.health_port
        )


def check_port(**ports: int) -> None:
    """Raises ValueError that names the flag of what is no port; 0 stands for none."""
    for name, port in ports.items():
        if not 0 <= port < 65536:
            raise ValueError(f"{_flag(name)} must be from 0 to 65535")


def check_all_or_none(**files: str) -> None:
    """Raises ValueError that names the flags that are missing beside those that are given."""
    given = [_flag(name) for name, path in files.items() if path]
    missing = [_flag(name) for name, path in files.items() if not path]
    if given and missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ValueError(
            f"{' and '.join(missing)} {verb} missing: with {' and '.join(given)} all of "
            f"{', '.join(map(_flag, files))} are needed"
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
