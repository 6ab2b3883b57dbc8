"""DeleteAcls (api key 31, v1-v3): remove the access control entries that match filters.

v2 flexible; v3 USER resources. Decided by `ottla.controller.acls`.
Source: DeleteAclsRequest.json; AclApis.handleDeleteAcls and ControllerApis.handleDeleteAcls of Apache Kafka 4.3.
"""

from functools import partial

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


@serves(api_key=31, versions=range(1, 4))
def delete_acls(context: RequestContext, request: DeleteAclsRequest) -> Delayed[Message]:
    """Pass the request on to the active controller."""
    return ask_controller(context, request, partial(_decide, context))


def _decide(context: RequestContext, request: DeleteAclsRequest) -> Delayed[Message]:
    if not context.services.authorizer.is_enabled:
        refused = [
            DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
            for _ in request.filters
        ]
        return Delayed.of(DeleteAclsResponse(filter_results=refused))
    context.require_on_cluster(Operation.ALTER)
    return context.services.controller.decide_here(request)
