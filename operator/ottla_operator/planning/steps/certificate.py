"""Steps of a Cluster's certificates; none of them prints a secret."""

from dataclasses import dataclass

from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.manifest import Metadata
from ottla_operator.model.user_sample import UserSample
from ottla_operator.planning.steps.secret import WriteSecret


@dataclass(frozen=True, slots=True)
class OrderCertificate:
    """Create or update a Certificate of cert-manager."""

    order: CertificateOrder
    owner: Metadata

    def __str__(self) -> str:
        return f"request certificate {self.order.name} from {self.order.issuer.kind} {self.order.issuer.name}"


@dataclass(frozen=True, slots=True)
class WithdrawCertificate:
    """Delete a Certificate of cert-manager, which would otherwise renew it without end."""

    name: str
    owner: Metadata

    def __str__(self) -> str:
        return f"withdraw certificate {self.name}, which no listener has any more"


@dataclass(frozen=True, slots=True)
class LeaveUsersBehind:
    """Report Users that the next phase of an authority, which the write before this step started, did not wait for."""

    authority: str
    users: UserSample

    def __str__(self) -> str:
        return (
            f"continue the rotation of the {self.authority} without {self.users}: their clients cannot connect before "
            "their Secrets are updated; the status of each User has the reason"
        )


CertificateStep = WriteSecret | OrderCertificate | WithdrawCertificate | LeaveUsersBehind
