"""ListGroups (api key 16, v0-v5): the groups that this broker coordinates.

v1 throttle time; v3 flexible; v4 filter by state, and the states (KIP-518); v5 filter by type, and the types (KIP-848).
Filters ignore case. Source: ListGroupsRequest.json; GroupCoordinatorService.listGroups of
Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.purgatory.steps import Steps, split_in_steps
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@serves(api_key=16, versions=range(0, 6))
def list_groups(context: RequestContext, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    """List all groups to clients that may describe the cluster, to others those that they may describe."""
    response = yield from context.services.groups.list_groups(request)
    if not context.would_be_allowed(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        response.groups, _ = yield from split_in_steps(
            response.groups,
            lambda group: context.would_be_allowed(Operation.DESCRIBE, ResourceType.GROUP, group.group_id),
        )
    return response
