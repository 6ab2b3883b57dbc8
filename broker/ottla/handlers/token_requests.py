"""What the four APIs of delegation tokens have in common: which connections may use them, and whose request it is.

Source: allowTokenRequests in KafkaApis and ControllerApis of Apache Kafka 4.3.
"""

from functools import partial
from typing import Final

from ottla.handlers.api import RequestContext
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import ANONYMOUS_PRINCIPAL
from ottla.wire.codec import Message

FIRST_VERSION_WITH_REQUESTER: Final = 3
"""Of CreateDelegationToken and DescribeDelegationToken (KIP-373)."""


def may_manage_tokens(context: RequestContext) -> bool:
    """Return whether the client has authenticated, and otherwise than with a token.

    The broker that forwarded a request has checked its client's connection; the principal says whether it has a token.
    """
    client = context.connection
    if client.is_token_authenticated:
        return False
    if client.is_forwarded or client.security_protocol.startswith("SASL_"):
        return True
    return client.security_protocol == "SSL" and client.principal != ANONYMOUS_PRINCIPAL


def decide_with_requester(context: RequestContext, request: Message) -> Delayed[Message]:
    """Return the active controller's decision about a request of the client's principal."""
    decide = partial(context.services.controller.handle_locally, requester=context.connection.principal)
    return forward_to_controller(context, request, decide)
