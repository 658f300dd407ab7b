"""An authority that signs certificates, good and bad, into folders as services read them."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dspark.transport_security.tls_files import TlsFiles

_DAY = datetime.timedelta(days=1)
LOCAL = ("localhost",)


class Authority:
    """Makes folders with tls.crt, tls.key and ca.crt."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key(), -_DAY, 10 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        folder: Path,
        service: str,
        *,
        dns: Sequence[str] | None = None,
        uris: Sequence[str] = (),
        starts: datetime.timedelta = -_DAY,
        ends: datetime.timedelta = _DAY,
        trusted: Sequence[Authority] = (),
    ) -> TlsFiles:
        """A new certificate for the service; ``dns`` empty and no ``uris``: a common name alone.

        Each file is put in place whole, the certificate last. ``trusted`` goes into ca.crt in place
        of this authority.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(service), self._name, key.public_key(), starts, ends)
        names: list[x509.GeneralName] = [
            x509.DNSName(name) for name in ((service, *LOCAL) if dns is None else dns)
        ]
        names += [x509.UniformResourceIdentifier(uri) for uri in uris]
        if names:
            names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        folder.mkdir(parents=True, exist_ok=True)
        replace(folder / "ca.crt", b"".join(each.pem for each in trusted or (self,)))
        replace(folder / "tls.key", _key_pem(key))
        replace(folder / "tls.crt", certificate.public_bytes(serialization.Encoding.PEM))
        return files_in(folder)


def files_in(folder: Path) -> TlsFiles:
    return TlsFiles(*(str(folder / name) for name in ("tls.crt", "tls.key", "ca.crt")))


def settings_of(files: TlsFiles) -> dict[str, str]:
    """The fields of a service's config."""
    return {"tls_cert": files.cert, "tls_key": files.key, "tls_ca": files.ca}


def replace(path: Path, content: bytes) -> None:
    """As a careful writer does: no reader ever sees half of it."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.replace(fresh, path)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    starts: datetime.timedelta,
    ends: datetime.timedelta,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + starts)
        .not_valid_after(now + ends)
    )
