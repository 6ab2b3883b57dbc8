"""Certificates that an authority signs: their issuer, their validity, and whether one is current."""

from datetime import datetime, timedelta
from typing import Final, Protocol

from ottla_operator.model import certificates
from ottla_operator.model.certificates import Leaf, LeafRequest, SigningAuthority, facts
from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.timestamps import instant
from ottla_operator.planning.certificates.authorities import renewal_begins

LEAF_DAYS: Final = 365
"""Maximum validity of certificates of nodes, the operator and Users; never longer than their authority's."""
_WORTH_IT: Final = timedelta(days=1)
"""A certificate is not replaced if the next one ends less than this later: its authority is replaced first."""


class Issuer(Protocol):
    """Creates keys and signs; see `model.certificates.CertificateIssuer`."""

    def authority(self, organization: str, what: str, *, now: datetime, days: int) -> SigningAuthority: ...
    def leaf(self, authority: SigningAuthority, request: LeafRequest, *, now: datetime, days: int) -> Leaf: ...


def leaf_days(wanted: Authority) -> int:
    """Return the maximum validity of certificates that the authority signs."""
    return min(LEAF_DAYS, wanted.validity_days)


def is_current(authority: SigningAuthority, found: Leaf, request: LeafRequest, wanted: Authority, now: str) -> bool:
    """Tell whether the certificate ``found`` has the requested names and subject, and is valid for long enough."""
    said, time = facts(found.certificate), instant(now)
    if said.names != request.names or said.subject != certificates.subject_of(request):
        return False
    if said.not_before > time:
        # The clock was ahead when it was issued: no peer accepts it yet.
        return False
    if not certificates.is_issued_by(found.certificate, authority.certificate):
        return False
    if time < renewal_begins(found.certificate, wanted.renewal_days):
        return True
    return (
        min(time + timedelta(days=leaf_days(wanted)), facts(authority.certificate).not_after)
        < said.not_after + _WORTH_IT
    )
