"""DescribeGroups (api key 15, v0-v6): state, protocol and members of classic groups.

v1 throttle time; v3 authorized operations (KIP-430); v4 group instance ids; v5 flexible; v6 GROUP_ID_NOT_FOUND with a
message (KIP-1043), where older versions just see a Dead group. Not done: authorization; everybody may do everything,
and is told so. Source: DescribeGroupsRequest.json; KafkaApis.handleDescribeGroupsRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

_FIRST_VERSION_WITH_NOT_FOUND = 6
_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = 3, 6, 8, 10, 11
_EVERY_OPERATION = sum(1 << code for code in (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS))
"""The operations that a group has, by the codes of AclOperation."""


@serves(api_key=15, versions=range(0, 7))
def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> Delayed[DescribeGroupsResponse]:
    """Ask for each group; hide from old clients the error that they do not know."""

    def answer(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            for group in groups:
                group.authorized_operations = _EVERY_OPERATION
        if context.api_version < _FIRST_VERSION_WITH_NOT_FOUND:
            for group in groups:
                group.error_message = None
                if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                    group.error_code = 0
        return DescribeGroupsResponse(groups=groups)

    return context.services.groups.describe_groups(request.groups).then(answer)
