"""The Certificate object of cert-manager, from which cert-manager issues and renews a Secret.

Source: cert-manager.io/v1, Certificate.
"""

from dataclasses import dataclass
from ipaddress import ip_address

from ottla_operator.model.document import Document
from ottla_operator.model.listeners import IssuerRef, Listener
from ottla_operator.model.manifest import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateOrder:
    """A certificate that cert-manager issues."""

    name: str
    names: tuple[str, ...]
    """Host names and IP addresses, sorted."""
    issuer: IssuerRef

    @property
    def secret_name(self) -> str:
        """The Secret with ``tls.crt``, ``tls.key`` and, with most issuers, ``ca.crt``."""
        return self.name

    @property
    def spec(self) -> Document:
        addresses = [name for name in self.names if is_address(name)]
        return {
            "secretName": self.secret_name,
            "dnsNames": [name for name in self.names if name not in addresses],
            **({"ipAddresses": addresses} if addresses else {}),
            "issuerRef": {"name": self.issuer.name, "kind": self.issuer.kind, "group": self.issuer.group},
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "usages": ["digital signature", "server auth"],
        }


def certificate_order(cluster: Cluster, listener: Listener, names: frozenset[str]) -> CertificateOrder | None:
    """Return the Certificate to apply; None unless the listener's certificate comes from cert-manager."""
    if listener.certificate is None or listener.certificate.issuer_ref is None:
        return None
    return CertificateOrder(
        name=f"{cluster.name}-listener-{listener.name}",
        names=tuple(sorted(names)),
        issuer=listener.certificate.issuer_ref,
    )


def certificate_name(name: str) -> str:
    """Return a host name or address in the form of certificates: in lower case, addresses as RFC 5952 writes them."""
    return str(ip_address(name)) if is_address(name) else name.lower()


def is_address(name: str) -> bool:
    """Tell whether a name of a certificate is an IP address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
