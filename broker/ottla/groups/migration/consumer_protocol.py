"""Subscriptions and assignments of classic consumers, which a coordinator must read when their group is converted.

Each starts with an int16 version. A version above the newest one is read and written as the newest one: later versions
only append fields. Bounds are of what members send; no real client comes near them.

Source: ConsumerProtocol of Apache Kafka's clients.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final, TypeVar

from ottla.errors import ProtocolError
from ottla.groups.modern.topics import ClusterTopics
from ottla.purgatory.steps import Steps
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

_VERSION: Final = Struct(">h")
ENTRIES_MAX: Final = 50_000
"""Topics and partitions in one subscription or assignment."""

MessageT = TypeVar("MessageT", bound=Message)


def version_of(data: bytes) -> int:
    """Return the version of a subscription or assignment.

    Raises:
        ProtocolError: there is none, or it is negative.
    """
    if len(data) < _VERSION.size:
        raise ProtocolError(f"a message of the consumer protocol has {len(data)} bytes; its version takes two")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"a message of the consumer protocol has version {version}")
    return version


def decode_subscription(data: bytes) -> Steps[ConsumerProtocolSubscription]:
    """Return a member's subscription, in slices.

    Raises:
        ProtocolError: the bytes are none, or have more than `ENTRIES_MAX` entries.
    """
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> Steps[ConsumerProtocolAssignment]:
    """Return what the leader assigned to a member; raise as `decode_subscription`."""
    return _decode(ConsumerProtocolAssignment, data)


def _decode(message_type: type[MessageT], data: bytes) -> Steps[MessageT]:
    version = min(version_of(data), message_type.versions.last)
    message, _ = yield from message_type.decode_in_steps(data, version, _VERSION.size, entries_max=ENTRIES_MAX)
    return message


def encode_assignment(assigned: Mapping[Uuid, Iterable[int]], version: int, topics: ClusterTopics) -> bytes:
    """Return an assignment for a member whose subscription has ``version``; deleted topics are left out."""
    written = min(version, ConsumerProtocolAssignment.versions.last)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
    return _VERSION.pack(written) + assignment.encode(written)
