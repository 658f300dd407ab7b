"""TLS credentials of gRPC servers and channels, from files."""

from __future__ import annotations

import grpc

from dspark.transport_security.tls_files import TlsFiles, TlsMaterial


def server_credentials(files: TlsFiles, *, require_peer: bool) -> grpc.ServerCredentials:
    """Each handshake sees the files as they are then; raises SettingError if they cannot be used.

    With ``require_peer`` a caller must have a certificate that one of the authorities has signed.
    """
    watched = files.watched()
    last = watched.value()

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal last
        now = watched.value()
        if now is last:
            return None
        last = now
        return _configuration(now)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(last),
        changed,  # type: ignore[arg-type]  # None keeps the configuration
        require_client_authentication=require_peer,
    )


def channel_credentials(material: TlsMaterial) -> grpc.ChannelCredentials:
    """For one state of the files: gRPC cannot change those of a channel."""
    return grpc.ssl_channel_credentials(
        material.authorities or None, material.key or None, material.certificate or None
    )


def _configuration(material: TlsMaterial) -> grpc.ServerCertificateConfiguration:
    pairs = [(material.key, material.certificate)]
    return grpc.ssl_server_certificate_configuration(pairs, material.authorities or None)
