"""DescribeGroups (api key 15, v0-v6): state, protocol and members of classic groups.

v1 throttle time; v3 authorized operations (KIP-430); v4 group instance ids; v5 flexible; v6 GROUP_ID_NOT_FOUND with a
message (KIP-1043), where older versions return a Dead group.
Source: DescribeGroupsRequest.json; KafkaApis.handleDescribeGroupsRequest of Apache Kafka 4.3.
"""

from collections.abc import Iterator
from itertools import chain

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.permissions import authorized_operations
from ottla.purgatory.steps import Steps, split_in_steps, unique_in_steps
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.codec.primitives import LazyArray
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

_FIRST_VERSION_WITH_NOT_FOUND = 6


@serves(api_key=15, versions=range(0, 7))
def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> Steps[DescribeGroupsResponse]:
    """Describe each group, duplicates once; unauthorized groups come last, as in Kafka."""
    names = yield from unique_in_steps(request.groups)
    allowed, hidden = yield from split_in_steps(names, lambda group: context.may_on_group(Operation.DESCRIBE, group))
    request.groups = []  # otherwise they would be kept until the last of them is described
    groups = LazyArray(len(names), chain(_describe_each(context, request, allowed), map(_hidden, hidden)))
    return DescribeGroupsResponse(groups=groups.as_list)


def _describe_each(
    context: RequestContext, request: DescribeGroupsRequest, names: list[str]
) -> Iterator[DescribedGroup]:
    """Describe each group; replace the error that old clients do not know."""
    names.reverse()
    while names:
        # Removed one by one: freeing 90,000 names at once takes milliseconds.
        name = names.pop()
        group = context.services.groups.describe_group(name)
        if context.api_version < _FIRST_VERSION_WITH_NOT_FOUND:
            group.error_message = None
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                group.error_code = 0
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = authorized_operations(context, ResourceType.GROUP, name)
        yield group


def _hidden(name: str) -> DescribedGroup:
    return DescribedGroup(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
