"""DeleteAcls (api key 31, v1-v3): remove the access control entries that match filters.

v2 flexible; v3 USER resources. Decided by `ottla.controller.acls`.
Source: DeleteAclsRequest.json; AclApis.handleDeleteAcls and ControllerApis.handleDeleteAcls of Apache Kafka 4.3.
"""

from functools import partial

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller, decide_acls
from ottla.purgatory import Delayed
from ottla.wire.codec import Message
from ottla.wire.messages.delete_acls import DeleteAclsRequest


@serves(api_key=31, versions=range(1, 4))
def delete_acls(context: RequestContext, request: DeleteAclsRequest) -> Delayed[Message]:
    """Pass the request on to the active controller."""
    return ask_controller(context, request, partial(decide_acls, context))
