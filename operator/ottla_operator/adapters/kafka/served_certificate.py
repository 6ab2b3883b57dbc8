"""Which certificate a node shows: a TLS handshake with it, and nothing that depends on whether it is to be trusted."""

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
    """Shows its own certificate, so that the node has nothing to complain of, and takes any."""

    def tls_context(self) -> ssl.SSLContext | None:
        context = super().tls_context()
        if context is not None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


async def served_certificate(
    endpoint: Endpoint, properties: Mapping[str, str], *, timeout_s: float
) -> CertificateFacts | None:
    """Return what the certificate says that a listener under TLS shows.

    Args:
        endpoint: of the listener.
        properties: of a client that is let in there, or of one under TLS that only knocks: it says no password.
        timeout_s: for everything.

    Returns:
        None where nobody answers, or refuses this client, or shows what nobody can read.
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
