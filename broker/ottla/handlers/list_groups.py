"""ListGroups (api key 16, v0-v5): the groups that this broker coordinates.

v1 throttle time; v3 flexible; v4 filter by state, and the states (KIP-518); v5 filter by type, and the types (KIP-848).
Filters ignore case. Not done: authorization. Source: ListGroupsRequest.json; GroupCoordinatorService.listGroups of
Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@serves(api_key=16, versions=range(0, 6))
def list_groups(context: RequestContext, request: ListGroupsRequest) -> Delayed[ListGroupsResponse]:
    return context.services.groups.list_groups(request)
