"""SaslHandshake (api key 17, v0-v1): choose the mechanism of a login, also of one that renews another (KIP-368).

v0 is followed by bare tokens, v1 by SaslAuthenticate. Decided by `ottla.network.authentication`.
Source: SaslServerAuthenticator and KafkaApis.handleSaslHandshakeRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import Answer, RequestContext, serves
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@serves(api_key=17, versions=range(0, 2))
def sasl_handshake(context: RequestContext, request: SaslHandshakeRequest) -> Answer:
    """Ask the connection's login; where a listener has no SASL there is nothing to choose."""
    if context.connection.login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return context.connection.login.choose(request.mechanism, version=context.api_version)
