"""TLS of the HTTP front: each handshake uses the certificate that is in the files then."""

from __future__ import annotations

import ssl

from dspark.transport_security.tls_files import TlsFiles
from dspark.watched_files import WatchedFiles


def http_tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Raises SettingError for files that cannot be used now; later the last good ones stay."""
    watched = WatchedFiles((files.cert, files.key), lambda: _context(files))
    context = _context(files)

    def choose(
        connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext
    ) -> None:
        connection.context = watched.value()

    # Called in each handshake, whether or not the client names a server.
    context.sni_callback = choose
    return context


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    files.load_into(context)
    return context
