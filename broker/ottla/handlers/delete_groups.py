"""DeleteGroups (api key 42, v0-v2): remove groups without members, and their offsets.

v1 the response is sent before throttling (KIP-219); v2 flexible.
Source: DeleteGroupsRequest.json; GroupCoordinatorService.deleteGroups of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory.steps import Steps, map_in_steps, split_in_steps, unique_in_steps, values_in_steps
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@serves(api_key=42, versions=range(0, 3))
def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> Steps[DeleteGroupsResponse]:
    """Delete the groups that the client may delete, each once."""
    names = yield from unique_in_steps(request.groups_names)
    allowed, kept = yield from split_in_steps(names, lambda group: context.may_on_group(Operation.DELETE, group))
    del names  # before the last step: freeing everything at once takes milliseconds
    rejected = yield from map_in_steps(_rejected, kept)
    deleted = yield from map_in_steps(context.services.groups.delete_group, allowed)
    results = yield from values_in_steps(deleted)
    results += rejected
    return DeleteGroupsResponse(results=results)


def _rejected(group_id: str) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
