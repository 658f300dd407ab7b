"""Who a peer is, by its verified certificate.

A certificate with a SPIFFE id (a URI ``spiffe://DOMAIN/PATH`` among its alternative names) has that
identity alone, and the service's name if the path is ``/dspark/NAME``. Without one its DNS names
count, and its common name only where it has no alternative names at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

Auth = Mapping[str, Iterable[bytes]]
_SPIFFE = re.compile(r"spiffe://[a-z0-9._-]+(/.*)?")
_SERVICE_PATH = re.compile(r"/dspark/([A-Za-z0-9_-]+)")


def identities_of(auth: Auth) -> frozenset[str]:
    """``auth`` is gRPC's authentication context of a call; empty without a certificate."""
    uris = _texts(auth, "peer_uri")
    spiffe = [uri for uri in uris if uri.startswith("spiffe://")]
    if spiffe:
        # More than one is no valid SPIFFE certificate, and trusting any would be a guess.
        return _spiffe_identities(spiffe[0]) if len(spiffe) == 1 else frozenset()
    if _texts(auth, "x509_subject_alternative_name"):
        return frozenset(_texts(auth, "peer_dns"))
    return frozenset(_texts(auth, "x509_common_name"))


def _spiffe_identities(uri: str) -> frozenset[str]:
    match = _SPIFFE.fullmatch(uri)
    if match is None:
        return frozenset()
    service = _SERVICE_PATH.fullmatch(match[1] or "")
    return frozenset({uri, service[1]}) if service else frozenset({uri})


def _texts(auth: Auth, name: str) -> list[str]:
    return [value.decode("utf-8", "replace") for value in auth.get(name, ())]
