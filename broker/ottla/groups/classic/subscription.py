"""The subscribed topics in consumers' metadata, which is otherwise opaque to the coordinator.

Every version of the subscription starts with the fields of version 0, so any version is read as 0, newer ones too.

Source: ClassicGroup.computeSubscribedTopics, ConsumerProtocol.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.errors import ProtocolError
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription

_VERSION_SIZE_BYTES: Final = 2
_LENGTH_SIZE_BYTES: Final = 4
ENTRIES_MAX: Final = 20_000
"""Topics of the different subscriptions of a group: so many take 9 ms to decode."""


class SubscribedTopics:
    """The topics of one generation's members, decoded when they are first needed: many generations need none.

    ``subscriptions`` is None if the members are no consumers, or their protocol is not known.
    """

    def __init__(self, subscriptions: Sequence[bytes] | None) -> None:
        self._subscriptions = subscriptions
        self._topics: frozenset[str] | None = None

    @property
    def topics(self) -> frozenset[str] | None:
        """None if they are not known: a subscription is malformed, or there are more than `ENTRIES_MAX`."""
        if self._subscriptions is not None:
            subscriptions, self._subscriptions = self._subscriptions, None
            try:
                self._topics = subscribed_topics(subscriptions)
            except ProtocolError:
                self._topics = None
        return self._topics


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str]:
    """Return the union of the topics in ``subscriptions``, each after its int16 version.

    Those that begin with the same topics as the last one are not decoded: the members of most groups have the same.

    Raises:
        ProtocolError: one of them is malformed, or they have more than `ENTRIES_MAX` topics.
    """
    topics: set[str] = set()
    entries_left, decoded = ENTRIES_MAX, None
    for data in subscriptions:
        if decoded is not None and data.startswith(decoded, _VERSION_SIZE_BYTES):
            continue
        if len(data) < _VERSION_SIZE_BYTES:
            raise ProtocolError(f"a subscription has {len(data)} bytes; its version alone takes {_VERSION_SIZE_BYTES}")
        subscription, end = ConsumerProtocolSubscription.decode_from(
            data, 0, _VERSION_SIZE_BYTES, entries_max=entries_left
        )
        topics.update(subscription.topics)
        entries_left -= len(subscription.topics)
        decoded = data[_VERSION_SIZE_BYTES : end - _LENGTH_SIZE_BYTES - len(subscription.user_data or b"")]
    return frozenset(topics)
