"""DescribeUserScramCredentials (api key 50, v0): the SCRAM credentials of users, without their keys (KIP-554).

Source: ScramImage.describe of Apache Kafka 4.3, whose error texts these are.
"""

from collections.abc import Iterable

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory.steps import Steps, map_in_steps, sorted_in_steps
from ottla.quoting import cut_name
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_USERS_PER_STEP = 64


@serves(api_key=50, versions=range(0, 1))
def describe_user_scram_credentials(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    """List the credentials of the requested users, of all if none is named."""
    if not context.may_on_cluster(Operation.DESCRIBE):
        return (yield from _error_response(request))
    infos: dict[str, list[CredentialInfo]] = {}
    for user, credential in sorted(context.services.metadata.image.scram.credentials.items(), key=lambda each: each[0]):
        info = CredentialInfo(mechanism=user.mechanism, iterations=credential.iterations)
        infos.setdefault(user.name, []).append(info)
        yield None
    counts: dict[str, int] = {}
    for number, requested in enumerate(request.users or (), 1):
        counts[requested.name] = counts.get(requested.name, 0) + 1
        if number % _USERS_PER_STEP == 0:
            yield None
    counts = counts or dict.fromkeys(infos, 1)
    results = yield from map_in_steps(
        lambda name: _result(name, counts[name], infos.get(name)), (yield from sorted_in_steps(list(counts)))
    )
    return DescribeUserScramCredentialsResponse(results=results)


def _error_response(request: DescribeUserScramCredentialsRequest) -> Steps[DescribeUserScramCredentialsResponse]:
    """Return an error for each user, without its name, as Kafka does."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    rejected = yield from map_in_steps(
        lambda _: DescribeUserScramCredentialsResult(user="", error_code=code, error_message=None),
        request.users or (),
        per_step=_USERS_PER_STEP,
    )
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=rejected)


def _result(name: str, count: int, infos: Iterable[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message="Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{cut_name(name)}",
        )
    if infos is None:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {cut_name(name)}",
        )
    return DescribeUserScramCredentialsResult(user=name, credential_infos=list(infos))
