"""CreateAcls (api key 30, v1-v3): add access control entries.

This release has no authorizer: answered as a Kafka without one does. Source: AclApis.handleCreateAcls of Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


@serves(api_key=30, versions=range(1, 4))
def create_acls(_: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Say of each entry that there is no authorizer."""
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
            for _ in request.creations
        ]
    )
