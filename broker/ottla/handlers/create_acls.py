"""CreateAcls (api key 30, v1-v3): add access control entries.

v2 flexible; v3 USER resources. Decided by `ottla.controller.acls`.
Source: CreateAclsRequest.json; AclApis.handleCreateAcls and ControllerApis.handleCreateAcls of Apache Kafka 4.3.
"""

from functools import partial

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import decide_acls, forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.codec import Message
from ottla.wire.messages.create_acls import CreateAclsRequest

_ENTRIES = Entries("creations", "results", key="")


@serves(api_key=30, versions=range(1, 4))
def create_acls(context: RequestContext, request: CreateAclsRequest) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller."""

    def forward(part: CreateAclsRequest) -> Delayed[Message]:
        return forward_to_controller(context, part, partial(decide_acls, context))

    return forward_in_parts(request, _ENTRIES, forward)
