"""SaslAuthenticate (api key 36, v0-v2): one token of a SASL exchange.

v1 session_lifetime_ms (KIP-368); v2 flexible. Decided by `ottla.network.authentication`.
Source: SaslServerAuthenticator and KafkaApis.handleSaslAuthenticateRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


@serves(api_key=36, versions=range(0, 3))
def sasl_authenticate(context: RequestContext, request: SaslAuthenticateRequest) -> HandlerResult:
    """Continue the connection's exchange; without SASL on the listener a token is an error."""
    if context.connection.authenticator is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    return context.connection.authenticator.authenticate(bytes(request.auth_bytes))
