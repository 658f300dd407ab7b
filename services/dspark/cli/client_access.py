"""Flags of client commands for servers with TLS."""

from __future__ import annotations

import argparse
import ssl
from dataclasses import dataclass

from dspark.config import from_namespace, setting
from dspark.transport_security.tls_files import TlsFiles


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """The API key has a variable only, because others see the command lines of processes."""

    tls_ca: str = setting("", "PEM file of the authorities to trust; default: the system's")
    tls_cert: str = setting(
        "", "PEM file of a certificate to show, if the server asks for one; default: none"
    )
    tls_key: str = setting("", "PEM file of the certificate's key; default: none")

    def __post_init__(self) -> None:
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("--tls-cert and --tls-key go together")

    @property
    def files(self) -> TlsFiles | None:
        """None where the address alone says whether there is TLS."""
        files = TlsFiles(self.tls_cert, self.tls_key, self.tls_ca)
        return None if files == TlsFiles() else files


def files_of(arguments: argparse.Namespace) -> TlsFiles | None:
    """Raises SettingError for files that cannot be used."""
    files = from_namespace(ClientAccess, arguments).files
    if files is not None:
        files.read()
    return files


def https_context(files: TlsFiles | None) -> ssl.SSLContext:
    """For requests over HTTPS."""
    context = ssl.create_default_context(cafile=(files.ca or None) if files else None)
    if files is not None and files.cert:
        files.load_into(context)
    return context
