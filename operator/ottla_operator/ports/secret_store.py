"""The port to Secrets: of users, and of clusters with TLS."""

from typing import Protocol

from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import Secret


class SecretStore(Protocol):
    """The Secrets of one namespace, or of one state directory.

    Methods raise `HostError` if waiting does not help, and `ApiError` or OSError if a retry may succeed; no message
    contains an entry of a Secret.
    """

    async def read(self, name: str) -> Secret | None:
        """Return the Secret, also one that the operator did not write; None without one."""

    async def write(self, secret: Secret, owner: Metadata) -> None:
        """Write it as a whole, unless the stored one has another ``version``; it is deleted with ``owner``."""

    async def delete(self, name: str) -> None:
        """Delete it; one that is gone already is no error."""

    async def read_entry(self, name: str, key: str) -> str | None:
        """Return an entry of a Secret that the user provides; None if it is missing."""

    async def has_certificate_order(self, order: CertificateOrder) -> bool:
        """Tell whether a Certificate of cert-manager with exactly this spec exists."""

    async def order_certificate(self, order: CertificateOrder, owner: Metadata) -> None:
        """Create or update a Certificate of cert-manager; its Secret is written some time later."""

    async def withdraw_certificate(self, name: str, owner: Metadata) -> None:
        """Delete a Certificate that was created for ``owner``; one that is gone or has another owner is no error."""

    def location(self, name: str) -> str:
        """Return where an administrator finds the Secret."""
