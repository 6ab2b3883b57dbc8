"""The port to Secrets: those of users, and those of clusters with TLS."""

from typing import Protocol

from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import Secret


class SecretStore(Protocol):
    """The Secrets of one namespace, or of one state directory.

    Methods raise `HostError` when the store refuses for good, and `ApiError` or OSError when it may do so later; no
    message says what is in a Secret.
    """

    async def read(self, name: str) -> Secret | None:
        """Return the Secret, whoever wrote it; None when there is none."""

    async def write(self, secret: Secret, owner: Metadata) -> None:
        """Make it so, as a whole, unless there is another than that of its ``version``; it goes when ``owner`` does."""

    async def delete(self, name: str) -> None:
        """Remove it; one that is gone already is no error."""

    async def value(self, name: str, key: str) -> str | None:
        """Return an entry of a Secret that somebody else keeps; None when it is not there."""

    async def is_ordered(self, order: CertificateOrder) -> bool:
        """Tell whether cert-manager has been asked for just this certificate."""

    async def order(self, order: CertificateOrder, owner: Metadata) -> None:
        """Ask cert-manager for a certificate; its Secret is there some time later."""

    async def withdraw(self, name: str, owner: Metadata) -> None:
        """Take back what was asked for on behalf of ``owner``; what is gone, or somebody else's by now, is no error."""

    def location(self, name: str) -> str:
        """Return where a person finds the Secret."""
