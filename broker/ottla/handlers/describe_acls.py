"""DescribeAcls (api key 29, v1-v3): list the access control entries that match a filter.

v2 flexible; v3 USER resources. Served from this node's metadata.
Source: DescribeAclsRequest.json; AclApis.handleDescribeAcls of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory.steps import Steps, split_in_steps
from ottla.wire.acl_codes import Operation
from ottla.wire.acl_filter import AclFilter
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


@serves(api_key=29, versions=range(1, 4))
def describe_acls(context: RequestContext, request: DescribeAclsRequest) -> Steps[DescribeAclsResponse]:
    """List the matching entries by resource."""
    context.require_on_cluster(Operation.DESCRIBE)
    if not context.services.authorizer.is_enabled:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    wanted, by_id = AclFilter.read(request), context.services.metadata.image.acls.by_id
    meant, _ = yield from split_in_steps(by_id, lambda acl_id: wanted.matches(by_id[acl_id]), per_step=64)
    by_resource: dict[tuple[int, str, int], list[AclDescription]] = {}
    for number, acl_id in enumerate(sorted(meant), 1):
        acl = by_id[acl_id]
        described = AclDescription(
            principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
        )
        by_resource.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(described)
        if number % 64 == 0:
            yield None
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=described_acls
            )
            for (resource_type, name, pattern_type), described_acls in by_resource.items()
        ],
    )
