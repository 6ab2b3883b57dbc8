"""DescribeGroups (api key 15, v0-v6): state, protocol and members of classic groups.

v1 throttle time; v3 authorized operations (KIP-430); v4 group instance ids; v5 flexible; v6 GROUP_ID_NOT_FOUND with a
message (KIP-1043), where older versions just see a Dead group.
Source: DescribeGroupsRequest.json; KafkaApis.handleDescribeGroupsRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.permissions import authorized_operations, split
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

_FIRST_VERSION_WITH_NOT_FOUND = 6


@serves(api_key=15, versions=range(0, 7))
def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> Delayed[DescribeGroupsResponse]:
    """Ask for each group; hide from old clients the error that they do not know."""

    def answer(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
        if context.api_version < _FIRST_VERSION_WITH_NOT_FOUND:
            for group in groups:
                group.error_message = None
                if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                    group.error_code = 0
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group.group_id)
        return DescribeGroupsResponse(groups=[*groups, *refused])

    allowed, hidden = split(request.groups, lambda group: context.may_on_group(Operation.DESCRIBE, group))
    refused = [DescribedGroup(group_id=group, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED) for group in hidden]
    return context.services.groups.describe_groups(allowed).then(answer)
