"""The steps by which a Cluster gets its certificates; none of them prints a secret."""

from dataclasses import dataclass

from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.manifest import Metadata
from ottla_operator.planning.steps.secret import WriteSecret


@dataclass(frozen=True, slots=True)
class OrderCertificate:
    """Ask cert-manager for a certificate."""

    order: CertificateOrder
    owner: Metadata

    def __str__(self) -> str:
        return f"ask {self.order.issuer.kind} {self.order.issuer.name} for certificate {self.order.name}"


@dataclass(frozen=True, slots=True)
class WithdrawCertificate:
    """Tell cert-manager that a certificate is not wanted any more: it would renew it for ever."""

    name: str
    owner: Metadata

    def __str__(self) -> str:
        return f"withdraw certificate {self.name}, which no listener has any more"


CertificateStep = WriteSecret | OrderCertificate | WithdrawCertificate
