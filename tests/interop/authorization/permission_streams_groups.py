"""Rows of the permission matrix about streams groups (KIP-1071).

`STREAMERS` is a streams group without members; its topology reads `ORDERS` and has a changelog, `AUTO`, which does not
exist: a member's heartbeat creates it if its client may, and `leave_streams_group` deletes it.
"""

from typing import Any

from permission_requests import always
from permission_row import AUTO, ORDERS, OTHER, READERS, STRANGERS, STREAMERS, Row, Values

from ottla.wire.messages.registry import ApiKey

_A = ApiKey
_PARTED_EPOCH = 1
"""Of a member that the group does not have: only permissions and names are checked before that."""


def topology(*sources: str) -> Values:
    """Return that of a stateful task per partition of the sources."""
    changelog = {"name": AUTO, "replication_factor": 1}
    subtopology: dict[str, Any] = {
        "subtopology_id": "0",
        "source_topics": list(sources),
        "state_changelog_topics": [changelog],
    }
    return {"epoch": 0, "subtopologies": [subtopology]}


def joining(*sources: str) -> Values:
    """Return the first heartbeat of a member of `STREAMERS`."""
    return {
        "group_id": STREAMERS,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "process_id": "p",
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "topology": topology(*sources),
    }


STREAMS_GROUP_ROWS = (
    *(
        Row(
            api_key=_A.STREAMS_GROUP_HEARTBEAT,
            name=name,
            values=always(**joining(*sources) | {"group_id": group, "member_epoch": _PARTED_EPOCH}),
        )
        for name, group, sources in (
            ("not a streams group", READERS, (ORDERS,)),
            ("of two topics", STREAMERS, (ORDERS, OTHER)),
            ("of an internal topic", STREAMERS, (ORDERS, "__consumer_offsets")),
            ("of an invalid topic", STREAMERS, (ORDERS, "or ders")),
        )
    ),
    Row(
        api_key=_A.STREAMS_GROUP_HEARTBEAT,
        name="that creates a topic",
        values=always(**joining(ORDERS)),
        undo=lambda server: server.leave_streams_group(),
        # Counts the members that have joined, by both users.
        ignored=frozenset({"member_epoch"}),
    ),
    Row(
        api_key=_A.STREAMS_GROUP_DESCRIBE,
        name="",
        values=always(group_ids=[READERS, STREAMERS, STRANGERS], include_authorized_operations=True),
        ignored=frozenset({"group_epoch", "assignment_epoch"}),
    ),
)
