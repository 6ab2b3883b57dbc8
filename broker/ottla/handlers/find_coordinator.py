"""FindCoordinator (api key 10, v0-v6): find the broker that coordinates a group, transactional id or share-partition.

v1 key type, error message, throttle time; v3 flexible; v4 several keys (KIP-699); v6 share-partitions (KIP-932), for
brokers. The internal topics are created when they are first needed; COORDINATOR_NOT_AVAILABLE meanwhile, as in Kafka.
Source: FindCoordinatorRequest.json; KafkaApis.getCoordinator of Apache Kafka 4.3.
"""

from typing import Final

from ottla.errors import MESSAGES, ErrorCode
from ottla.handlers.advertised import advertised_endpoint
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.auto_create import create_internal_topic
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps
from ottla.share_state.coordinator import parse_coordinator_key
from ottla.share_state.messages import message_of
from ottla.types import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    Endpoint,
    NodeId,
    TopicPartition,
)
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP, _TRANSACTION, _SHARE = range(3)
_FIRST_VERSION_WITH_KEYS = 4
_FIRST_VERSION_WITH_SHARE = 6
_NO_NODE = -1
_LENGTH_PER_ITEM: Final = 256
"""So many characters are hashed in 20 us."""
_MESSAGES = {
    **MESSAGES,
    ErrorCode.NONE: "NONE",
    ErrorCode.INVALID_REQUEST: (
        "Coordinators are found for groups (key type 0), transactional ids (1) and, from version 6 on, "
        "share-partitions (2); the request has another type."
    ),
}


@serves(api_key=10, versions=range(0, 7))
def find_coordinator(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Steps[FindCoordinatorResponse]:
    """Look up the leader of the partition that holds each key."""
    if context.api_version >= _FIRST_VERSION_WITH_KEYS:
        return _find_each(context, request)
    found = _find(context, request.key_type, request.key)
    error = ErrorCode(found.error_code)
    message = message_of(error) if request.key_type == _SHARE else _MESSAGES[error]
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find_each(context: RequestContext, request: FindCoordinatorRequest) -> Steps[FindCoordinatorResponse]:
    response = FindCoordinatorResponse()
    work = 0
    for key in request.coordinator_keys:
        response.coordinators.append(_find(context, request.key_type, key))
        work += 1 + len(key) // _LENGTH_PER_ITEM
        if work >= ITEMS_PER_STEP:
            work = 0
            yield None
    return response


def _find(context: RequestContext, key_type: int, key: str) -> Coordinator:
    found: tuple[NodeId, Endpoint] | None = None
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    is_share = key_type == _SHARE and context.api_version >= _FIRST_VERSION_WITH_SHARE
    denied = _authorization_error(context, key_type, key)
    if denied is not None:
        error = denied
    elif key_type == _GROUP:
        found = _leader(context, CONSUMER_OFFSETS_TOPIC, context.services.groups.partition_for(key))
    elif key_type == _TRANSACTION:
        found = _leader(context, TRANSACTION_STATE_TOPIC, context.services.transactions.partition_for(key))
    elif is_share and (share_partition := parse_coordinator_key(key)) is not None:
        number = context.services.share_coordinator.partition_for(share_partition)
        found = _leader(context, SHARE_GROUP_STATE_TOPIC, number)
    else:
        error = ErrorCode.INVALID_REQUEST
    if found is not None:
        node_id, endpoint = found
        return Coordinator(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port, error_message="")
    is_known = key_type in (_GROUP, _TRANSACTION, _SHARE)
    message = "" if is_known else _MESSAGES[error]
    return Coordinator(key=key, node_id=_NO_NODE, port=_NO_NODE, error_code=int(error), error_message=message)


def _authorization_error(context: RequestContext, key_type: int, key: str) -> ErrorCode | None:
    """Return the error if the client may not describe the key, else None."""
    if key_type == _GROUP and not context.may_on_group(Operation.DESCRIBE, key):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if key_type == _TRANSACTION and not context.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    is_share = key_type == _SHARE and context.api_version >= _FIRST_VERSION_WITH_SHARE
    if is_share and not context.may_on_cluster(Operation.CLUSTER_ACTION):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


def _leader(context: RequestContext, topic: str, number: int | None) -> tuple[NodeId, Endpoint] | None:
    """Return the leader of a coordinator's partition and its address on the client's listener; None without one."""
    services = context.services
    if number is None:
        create_internal_topic(services, topic)
        return None
    partition = services.metadata.partition(TopicPartition(topic, number))
    leader = None if partition is None else services.metadata.broker(partition.leader)
    if leader is None or leader.is_fenced:
        return None
    endpoint = advertised_endpoint(context, leader)
    return None if endpoint is None else (leader.broker_id, endpoint)
