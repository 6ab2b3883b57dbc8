"""Reads the certificate that a listener presents, by a TLS handshake that does not verify it."""

import ssl
from collections.abc import Mapping

from ottla.client.connection import Connection
from ottla.client.errors import ClientError
from ottla.client.security import ClientSecurity
from ottla.errors import OttlaError
from ottla.types import Endpoint
from ottla_operator.model.certificates import CertificateFacts, facts

CLIENT_ID = "ottla-operator"


class _Onlooker(ClientSecurity):
    """Presents its own certificate, so that the node accepts the handshake, and accepts any certificate itself."""

    def tls_context(self) -> ssl.SSLContext | None:
        context = super().tls_context()
        if context is not None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


async def served_certificate(
    endpoint: Endpoint, properties: Mapping[str, str], *, timeout_s: float
) -> CertificateFacts | None:
    """Return the facts of the certificate that a TLS listener presents.

    Args:
        endpoint: of the listener.
        properties: of a client that may connect there, or of one that completes only the handshake, without
            credentials.
        timeout_s: for everything.

    Returns:
        None if there is no response, the client is rejected, or the certificate is unreadable.
    """
    try:
        security = _Onlooker.from_properties(properties)
        connection = await Connection.open(endpoint, client_id=CLIENT_ID, timeout_s=timeout_s, security=security)
    except (ClientError, OttlaError, OSError):
        return None
    certificate = connection.peer_certificate
    await connection.close()
    try:
        return None if certificate is None else facts(ssl.DER_cert_to_PEM_cert(certificate))
    except ValueError:
        return None
