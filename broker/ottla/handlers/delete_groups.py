"""DeleteGroups (api key 42, v0-v2): remove groups without members, and their offsets.

v1 throttling before the answer; v2 flexible. Not done: authorization.
Source: DeleteGroupsRequest.json; GroupCoordinatorService.deleteGroups of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


@serves(api_key=42, versions=range(0, 3))
def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> Delayed[DeleteGroupsResponse]:
    deleted = context.services.groups.delete_groups(request.groups_names)
    return deleted.then(lambda results: DeleteGroupsResponse(results=results))
