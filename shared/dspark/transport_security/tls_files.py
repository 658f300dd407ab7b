"""A certificate, its key and the authorities that sign peers: PEM files, and what is in them."""

from __future__ import annotations

import functools
import ssl
from dataclasses import dataclass
from pathlib import Path

from dspark.config import SettingError
from dspark.watched_files import WatchedFiles

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The contents; a part that no file is named for is empty."""

    certificate: bytes
    key: bytes
    authorities: bytes


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files. A client may lack certificate and key, and trust the system's
    authorities where ``ca`` is empty."""

    cert: str = ""
    key: str = ""
    ca: str = ""

    def read(self) -> TlsMaterial:
        """Raises SettingError for a file that cannot be read, is no PEM, or a key of another."""
        for _ in range(_ATTEMPTS):
            material = self._contents()
            self._check(material)
            # What was checked by path must be what was read, even while files are replaced.
            if self._contents() == material:
                return material
        raise SettingError(f"{self.cert}: changes while it is read")

    def watched(self) -> WatchedFiles[TlsMaterial]:
        """Their contents, now and after each change; one watch for all who use the same files."""
        return _watch(self)

    def _contents(self) -> TlsMaterial:
        return TlsMaterial(_read(self.cert), _read(self.key), _read(self.ca))

    def _check(self, material: TlsMaterial) -> None:
        if self.cert:
            self.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        if self.ca:
            _check_authorities(self.ca, material.authorities)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Give the context certificate and key; raises SettingError."""
        try:
            # Without a password an encrypted key would be asked for at the terminal.
            context.load_cert_chain(self.cert, self.key, password="")
        except ssl.SSLError as error:
            reason = (error.reason or "cannot be read").lower().replace("_", " ")
            raise SettingError(f"{self.cert} and {self.key}: no usable pair: {reason}") from error
        except OSError as error:
            raise SettingError(f"{self.cert} or {self.key}: {error.strerror}") from error


@functools.cache
def _watch(files: TlsFiles) -> WatchedFiles[TlsMaterial]:
    return WatchedFiles((files.cert, files.key, files.ca), files.read)


def _read(path: str) -> bytes:
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from error


def _check_authorities(path: str, authorities: bytes) -> None:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise SettingError(f"{path}: has no certificate in PEM form") from error
