"""AlterClientQuotas (api key 49, v0-v1): set and remove limits of users, client ids and addresses (KIP-546).

v1 flexible. Decided by `ottla.controller.client_quotas`.
Source: AlterClientQuotasRequest.json; ControllerApis.handleAlterClientQuotas of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest

_ENTRIES = Entries("entries", "entries", key="")


@serves(api_key=49, versions=range(0, 2))
def alter_client_quotas(
    context: RequestContext, request: AlterClientQuotasRequest
) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller."""
    return forward_in_parts(
        request, _ENTRIES, lambda part: forward_to_controller(context, part, requires=Operation.ALTER_CONFIGS)
    )
