"""DeleteAcls (api key 31, v1-v3): remove the access control entries that match filters.

This release has no authorizer: answered as a Kafka without one does. Source: AclApis.handleDeleteAcls of Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


@serves(api_key=31, versions=range(1, 4))
def delete_acls(_: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Say of each filter that there is no authorizer."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
            for _ in request.filters
        ]
    )
