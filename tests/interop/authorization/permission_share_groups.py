"""Rows of the permission matrix about share groups (KIP-932).

`SHARERS` is a share group without members, with start offsets of two topics; `READERS` is not a share group.
"""

from collections.abc import Callable

from permission_requests import always
from permission_row import (
    NO_SUCH_ID,
    NOTHING,
    ORDERS,
    OTHER,
    READERS,
    SHARERS,
    STRANGERS,
    Row,
    TargetServer,
    Values,
)

from ottla.wire.messages.registry import ApiKey

_A = ApiKey
_MEMBER = "none"
_TOPICS = (ORDERS, OTHER, NOTHING)
_OPEN, _NEXT, _CLOSE = 0, 1, -1
"""Epochs of a share session: rows open, use and close one."""
_NO_PARTITION = 9
"""The index of no partition: what a member acquires of another one depends on the time its state is read."""


def _heartbeat(group_id: str, *topics: str) -> Callable[[TargetServer, int], Values]:
    return always(group_id=group_id, member_id=_MEMBER, member_epoch=1, subscribed_topic_names=list(topics))


def _session(
    epoch: int, *, acknowledges: bool = False, partition_index: int = _NO_PARTITION
) -> Callable[[TargetServer, int], Values]:
    """Return requests of a member's share session; they name a partition of two topics.

    Args:
        epoch: of the request.
        acknowledges: whether they accept offset 0, which the member has not acquired.
        partition_index: of each topic.
    """
    batches = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}] if acknowledges else []
    partition = {"partition_index": partition_index, "acknowledgement_batches": batches}

    def values(server: TargetServer, _: int) -> Values:
        # No unknown id: JVM Kafka 4.3.1 fails with a NullPointerException where it authorizes the topic without name.
        topics = [
            {"topic_id": server.topic_ids.get(name, NO_SUCH_ID), "partitions": [partition]} for name in (ORDERS, OTHER)
        ]
        return {"group_id": SHARERS, "member_id": _MEMBER, "share_session_epoch": epoch, "topics": topics}

    return values


def _fetch(
    epoch: int, *, acknowledges: bool = False, partition_index: int = _NO_PARTITION
) -> Callable[[TargetServer, int], Values]:
    values = _session(epoch, acknowledges=acknowledges, partition_index=partition_index)
    return lambda server, version: values(server, version) | {"max_records": 10, "batch_size": 10}


_DESCRIBED = [{"topic_name": name, "partitions": [0]} for name in _TOPICS]
_ALTERED = [{"topic_name": name, "partitions": [{"partition_index": 0, "start_offset": 0}]} for name in _TOPICS]
_DELETED = [{"topic_name": name} for name in _TOPICS]

SHARE_GROUP_ROWS = (
    *(
        Row(
            api_key=key, name="", values=always(group_id=READERS, topics=[{"topic_id": NO_SUCH_ID, "partitions": [{}]}])
        )
        for key in (_A(api_key) for api_key in range(83, 88))  # InitializeShareGroupState to ReadShareGroupStateSummary
    ),
    Row(api_key=_A.SHARE_GROUP_HEARTBEAT, name="not a share group", values=_heartbeat(READERS, ORDERS)),
    Row(api_key=_A.SHARE_GROUP_HEARTBEAT, name="of one topic", values=_heartbeat(SHARERS, ORDERS)),
    Row(api_key=_A.SHARE_GROUP_HEARTBEAT, name="of two topics", values=_heartbeat(SHARERS, ORDERS, OTHER)),
    Row(
        api_key=_A.SHARE_GROUP_DESCRIBE,
        name="",
        values=always(group_ids=[READERS, SHARERS, STRANGERS], include_authorized_operations=True),
    ),
    Row(api_key=_A.SHARE_FETCH, name="without a session", versions=(1,), values=_fetch(_NEXT)),
    Row(
        api_key=_A.SHARE_FETCH,
        name="of records",
        versions=(1,),
        values=_fetch(_OPEN, partition_index=0),
        compares_errors_only=True,
    ),
    Row(api_key=_A.SHARE_FETCH, name="that opens a session", values=_fetch(_OPEN)),
    Row(api_key=_A.SHARE_ACKNOWLEDGE, name="in a session", values=_session(_NEXT, acknowledges=True)),
    Row(api_key=_A.SHARE_FETCH, name="that acknowledges", values=_fetch(_NEXT + 1, acknowledges=True)),
    Row(api_key=_A.SHARE_FETCH, name="that closes the session", values=_fetch(_CLOSE, acknowledges=True)),
    Row(
        api_key=_A.SHARE_ACKNOWLEDGE,
        name="without a session",
        versions=(1,),
        values=_session(_NEXT, acknowledges=True),
    ),
    Row(
        api_key=_A.DESCRIBE_SHARE_GROUP_OFFSETS,
        name="named",
        versions=(0,),
        values=always(groups=[{"group_id": group, "topics": _DESCRIBED} for group in (READERS, SHARERS, STRANGERS)]),
    ),
    Row(
        api_key=_A.DESCRIBE_SHARE_GROUP_OFFSETS,
        name="all",
        versions=(0,),
        values=always(groups=[{"group_id": group, "topics": None} for group in (READERS, SHARERS, STRANGERS)]),
    ),
    Row(
        api_key=_A.ALTER_SHARE_GROUP_OFFSETS,
        name="not a share group",
        values=always(group_id=READERS, topics=_ALTERED),
    ),
    Row(
        api_key=_A.ALTER_SHARE_GROUP_OFFSETS,
        name="",
        values=always(group_id=SHARERS, topics=_ALTERED),
        # JVM Kafka 4.3.1 sends the ids of topics that the client may not read; Ottla does not.
        ignored=frozenset({"topic_id"}),
    ),
    Row(
        api_key=_A.DELETE_SHARE_GROUP_OFFSETS,
        name="not a share group",
        values=always(group_id=READERS, topics=_DELETED),
    ),
    Row(
        api_key=_A.DELETE_SHARE_GROUP_OFFSETS,
        name="",
        values=always(group_id=SHARERS, topics=_DELETED),
        undo=lambda server: server.restore_share_offsets(),
    ),
)
