"""DeleteAcls (api key 31, v1-v3): remove the access control entries that match filters.

v2 flexible; v3 USER resources. Decided by `ottla.controller.acls`.
Source: DeleteAclsRequest.json; AclApis.handleDeleteAcls and ControllerApis.handleDeleteAcls of Apache Kafka 4.3.
"""

from functools import partial

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import decide_acls, forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.codec import Message
from ottla.wire.messages.delete_acls import DeleteAclsRequest

_ENTRIES = Entries("filters", "filter_results", key="")


@serves(api_key=31, versions=range(1, 4))
def delete_acls(context: RequestContext, request: DeleteAclsRequest) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller."""

    def forward(part: DeleteAclsRequest) -> Delayed[Message]:
        return forward_to_controller(context, part, partial(decide_acls, context))

    return forward_in_parts(request, _ENTRIES, forward)
