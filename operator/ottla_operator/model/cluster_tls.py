"""``spec.tls``: the two authorities of a Cluster, with the validity, renewal and rotation of certificates."""

from dataclasses import dataclass

from ottla_operator.model.document import Json

_VALIDITY_DAYS = 1_825
_RENEWAL_DAYS = 30
_OVERLAP_S = 86_400

NODE_PRINCIPAL = "User:ottla:node"
OPERATOR_PRINCIPAL = "User:ottla:operator"
NODE_COMMON_NAME = "node"
OPERATOR_COMMON_NAME = "operator"
"""Common names of certificates by the cluster's authority: the listener of nodes maps them to the two principals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """An authority that signs certificates: key and root certificate."""

    validity_days: int = _VALIDITY_DAYS
    renewal_days: int = _RENEWAL_DAYS
    """How long before their end certificates are replaced."""
    rotation: str = ""
    """Another value requests a new key."""
    overlap_s: int = _OVERLAP_S
    """How long the old key stays valid, so that clients can read their new Secrets."""
    secret_name: str | None = None
    """A Secret of the user that holds the authority (``ca.crt``, ``ca.key``); None: the operator creates one."""

    @classmethod
    def parse(cls, spec: Json) -> "Authority":
        rotation = spec.get("rotation", {})
        return cls(
            validity_days=spec.get("validityDays", _VALIDITY_DAYS),
            renewal_days=spec.get("renewalDays", _RENEWAL_DAYS),
            rotation=rotation.get("revision", ""),
            overlap_s=rotation.get("overlapSeconds", _OVERLAP_S),
            secret_name=spec.get("secretName"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTls:
    """``spec.tls``: nodes use TLS between each other."""

    cluster_ca: Authority = Authority()
    """Signs nodes and the operator."""
    clients_ca: Authority = Authority()
    """Signs Users of the type tls."""

    @property
    def overlap_s(self) -> int:
        """The longer of the two authorities' overlaps."""
        return max(self.cluster_ca.overlap_s, self.clients_ca.overlap_s)

    @classmethod
    def parse(cls, spec: Json) -> "ClusterTls":
        return cls(
            cluster_ca=Authority.parse(spec.get("clusterCa", {})),
            clients_ca=Authority.parse(spec.get("clientsCa", {})),
        )
