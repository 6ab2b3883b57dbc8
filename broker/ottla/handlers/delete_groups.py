"""DeleteGroups (api key 42, v0-v2): remove groups without members, and their offsets.

v1 throttling before the answer; v2 flexible.
Source: DeleteGroupsRequest.json; GroupCoordinatorService.deleteGroups of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.permissions import split
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@serves(api_key=42, versions=range(0, 3))
def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> Delayed[DeleteGroupsResponse]:
    """Have those deleted that the client may delete."""
    allowed, kept = split(request.groups_names, lambda group: context.may_on_group(Operation.DELETE, group))
    refused = [DeletableGroupResult(group_id=group, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED) for group in kept]
    deleted = context.services.groups.delete_groups(allowed)
    return deleted.then(lambda results: DeleteGroupsResponse(results=[*results, *refused]))
