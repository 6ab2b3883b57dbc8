"""DescribeClientQuotas (api key 48, v0-v1): the quotas of users, client ids and addresses (KIP-546).

This release keeps no client quotas (AlterClientQuotas is not served), so there are none to list.
Source: DescribeClientQuotasRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse


@serves(api_key=48, versions=range(0, 2))
def describe_client_quotas(context: RequestContext, __: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Return an empty list."""
    context.require_on_cluster(Operation.DESCRIBE_CONFIGS)
    return DescribeClientQuotasResponse(error_message="", entries=[])
