"""SaslHandshake (api key 17, v0-v1): select the mechanism, also for reauthentication (KIP-368).

v0 is followed by bare tokens, v1 by SaslAuthenticate. Decided by `ottla.network.authentication`.
Source: SaslServerAuthenticator and KafkaApis.handleSaslHandshakeRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@serves(api_key=17, versions=range(0, 2))
def sasl_handshake(context: RequestContext, request: SaslHandshakeRequest) -> HandlerResult:
    """Select the mechanism; without SASL on the listener a handshake is an error."""
    if context.connection.authenticator is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return context.connection.authenticator.choose(request.mechanism, version=context.api_version)
