"""DeleteShareGroupOffsets (api key 92, v0): delete start offsets of share groups without members (KIP-932).

Source: DeleteShareGroupOffsetsRequest.json; KafkaApis.handleDeleteShareGroupOffsetsRequest of Apache Kafka 4.3.
"""

from ottla.errors import MESSAGES, ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_protocols import is_share_protocol_enabled
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


@serves(api_key=92, versions=range(0, 1), has_few_entries=True)
def delete_share_group_offsets(context: RequestContext, request: DeleteShareGroupOffsetsRequest) -> HandlerResult:
    """Return errors for topics that the client may not read; forward the others."""
    if not is_share_protocol_enabled(context):
        return _error(ErrorCode.UNSUPPORTED_VERSION)
    if not context.may_on_group(Operation.DELETE, request.group_id):
        return _error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed: list[DeleteShareGroupOffsetsRequestTopic] = []
    rejected: list[DeleteShareGroupOffsetsResponseTopic] = []
    for topic in request.topics:
        if context.may_on_topic(Operation.READ, topic.topic_name):
            allowed.append(topic)
        else:
            rejected.append(_hidden(topic.topic_name))
    request.topics = allowed
    deleted = context.services.groups.share_offsets.delete_offsets(request)
    return deleted.then(lambda response: _add_rejected(response, rejected))


def _add_rejected(
    response: DeleteShareGroupOffsetsResponse, rejected: list[DeleteShareGroupOffsetsResponseTopic]
) -> DeleteShareGroupOffsetsResponse:
    if response.error_code == ErrorCode.NONE:
        response.responses += rejected
    return response


def _error(error: ErrorCode) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=int(error), error_message=MESSAGES[error])


def _hidden(topic: str) -> DeleteShareGroupOffsetsResponseTopic:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeleteShareGroupOffsetsResponseTopic(topic_name=topic, error_code=int(error), error_message=MESSAGES[error])
