"""AlterShareGroupOffsets (api key 91, v0): set start offsets of share groups without members (KIP-932).

Source: AlterShareGroupOffsetsRequest.json; KafkaApis.handleAlterShareGroupOffsetsRequest of Apache Kafka 4.3.
"""

from ottla.errors import MESSAGES, ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_protocols import is_share_protocol_enabled
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


@serves(api_key=91, versions=range(0, 1), has_few_entries=True)
def alter_share_group_offsets(context: RequestContext, request: AlterShareGroupOffsetsRequest) -> HandlerResult:
    """Return errors for topics that the client may not read or that do not exist; forward the others."""
    if not is_share_protocol_enabled(context):
        return _error(ErrorCode.UNSUPPORTED_VERSION)
    if not context.may_on_group(Operation.READ, request.group_id):
        return _error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rejected: list[AlterShareGroupOffsetsResponseTopic] = []
    allowed: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
    for topic in request.topics:
        if not context.may_on_topic(Operation.READ, topic.topic_name):
            rejected.append(_rejected(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif context.services.metadata.topic_id(topic.topic_name) is None:
            rejected.append(_rejected(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            allowed.setdefault(topic.topic_name, topic)
    request.topics = list(allowed.values())
    altered = context.services.groups.share_offsets.alter_offsets(request)
    return altered.then(lambda response: _add_rejected(response, rejected))


def _add_rejected(
    response: AlterShareGroupOffsetsResponse, rejected: list[AlterShareGroupOffsetsResponseTopic]
) -> AlterShareGroupOffsetsResponse:
    if response.error_code == ErrorCode.NONE:
        response.responses += rejected
    return response


def _error(error: ErrorCode) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=int(error), error_message=MESSAGES[error])


def _rejected(topic: AlterShareGroupOffsetsRequestTopic, error: ErrorCode) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=partition.partition_index, error_code=int(error), error_message=MESSAGES[error]
            )
            for partition in topic.partitions
        ],
    )
