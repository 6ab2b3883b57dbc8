"""DescribeAcls (api key 29, v1-v3): which access control entries match a filter.

This release has no authorizer: answered as a Kafka without one does. Source: AclApis.handleDescribeAcls of Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


@serves(api_key=29, versions=range(1, 4))
def describe_acls(_: RequestContext, __: DescribeAclsRequest) -> DescribeAclsResponse:
    """Say that there is no authorizer."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
