"""The subscribed topics in consumers' metadata, which is otherwise opaque to the coordinator.

Every version of the subscription starts with the fields of version 0, so any version is read as 0, newer ones too.

Source: ClassicGroup.computeSubscribedTopics, ConsumerProtocol.
"""

from collections.abc import Iterable
from typing import Final

from ottla.errors import ProtocolError
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription

_VERSION_SIZE_BYTES: Final = 2
_SUBSCRIPTION_ENTRIES_MAX: Final = 100_000
"""Bound of topics and partitions: no real client has more, and the metadata is not trusted."""


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str]:
    """Return the union of the topics in ``subscriptions``, each after its int16 version.

    Raises:
        ProtocolError: one of them is malformed.
    """
    topics: set[str] = set()
    for data in subscriptions:
        if len(data) < _VERSION_SIZE_BYTES:
            raise ProtocolError(f"a subscription has {len(data)} bytes; its version alone takes {_VERSION_SIZE_BYTES}")
        subscription, _ = ConsumerProtocolSubscription.decode_from(
            data, 0, _VERSION_SIZE_BYTES, entries_max=_SUBSCRIPTION_ENTRIES_MAX
        )
        topics.update(subscription.topics)
    return frozenset(topics)
