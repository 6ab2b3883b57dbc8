"""The certificate of a User of the type tls, pure: kept while it is current, else issued again."""

from typing import Final

from ottla_operator.model import certificates
from ottla_operator.model.certificates import Leaf, LeafRequest
from ottla_operator.model.cluster_secrets import CLIENTS_CA
from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.conditions import Waiting
from ottla_operator.model.secret import Secret
from ottla_operator.model.timestamps import instant
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import CERTIFICATE_REVISION_ANNOTATION, USER_CERTIFICATE, USER_KEY
from ottla_operator.planning.certificates.authorities import state_of
from ottla_operator.planning.certificates.leaves import Issuer, is_current, leaf_days

_MISSING: Final = "AuthorityMissing"


def user_certificate(
    user: User,
    found: Secret | None,
    *,
    clients_ca: Secret | None,
    nodes: Secret | None,
    wanted: Authority,
    now: str,
    issuer: Issuer,
) -> Leaf | Waiting:
    """Return the certificate for ``user``, or why there is none yet.

    Args:
        user: the manifest.
        found: the user's present Secret.
        clients_ca: the Secret of the authority that signs users.
        nodes: the Secret of the nodes, with their trust.
        wanted: the authority's settings in the Cluster.
        now: RFC 3339.
        issuer: keys and signatures.
    """
    state = state_of(clients_ca)
    if clients_ca is None or state is None or state.present.key is None:
        return Waiting(_MISSING, f"{user.cluster} has no authority yet that signs certificates of clients")
    trusted = "" if nodes is None else nodes.entries.get(CLIENTS_CA, "")
    if state.present.certificate not in certificates.certificates(trusted):
        # The Cluster's reconciliation introduces it first: do not replace a certificate by one that nodes reject.
        return Waiting(_MISSING, f"nodes do not trust the authority in Secret {clients_ca.name} yet")
    request = LeafRequest(common_name=user.common_name)
    entries = {} if found is None else found.entries
    leaf = certificates.leaf_of_parts(entries.get(USER_CERTIFICATE), entries.get(USER_KEY))
    is_requested = found is not None and found.annotations.get(CERTIFICATE_REVISION_ANNOTATION) == user.rotation
    if leaf is not None and is_requested and is_current(state.present, leaf, request, wanted, now):
        return leaf
    return issuer.leaf(state.present, request, now=instant(now), days=leaf_days(wanted))
