"""DescribeUserScramCredentials (api key 50, v0): which SCRAM credentials users have (KIP-554).

This release keeps no credentials (AlterUserScramCredentials is not served): there is no user that has any.
Source: ScramImage.describe of Apache Kafka 4.3, whose error texts these are.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@serves(api_key=50, versions=range(0, 1))
def describe_user_scram_credentials(
    _: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Say of each user that is asked for that it has none."""
    names = [user.name for user in request.users or ()]
    return DescribeUserScramCredentialsResponse(
        error_message="", results=[_result(name, names.count(name)) for name in sorted(set(names))]
    )


def _result(name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"Attempt to describe a user credential that does not exist: {name}",
    )
