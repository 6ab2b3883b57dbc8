"""`TopicCheck`: when a group must compare its topics with the hash that it has of them.

Source: ModernGroup.hasMetadataExpired, setMetadataRefreshDeadline of Apache Kafka 4.3.
"""

from typing import Final

from ottla.groups.modern.counts import SubscriptionCounts
from ottla.groups.modern.topics import ClusterTopics

METADATA_REFRESH_INTERVAL_MS: Final = 2**31 - 1
"""The time after which a group compares its topics with their hash without a change of them (Kafka's constant)."""


class TopicCheck:
    """The next comparison of one group; times are monotonic."""

    __slots__ = ("_change", "_deadline_ms", "_epoch")

    def __init__(self) -> None:
        self._deadline_ms = 0
        self._epoch = 0
        self._change = 0

    def is_due(self, topics: ClusterTopics, subscriptions: SubscriptionCounts, now_ms: int, epoch: int) -> bool:
        """Return whether the topics must be compared again; ``epoch`` is the group's."""
        if now_ms >= self._deadline_ms or epoch < self._epoch:
            return True
        if self._change != topics.change_count:
            if topics.have_changed_since(self._change, subscriptions):
                return True
            self._change = topics.change_count
        return False

    def note(self, topics: ClusterTopics, now_ms: int, epoch: int) -> None:
        """Compare again when topics change, after a long time, or when ``epoch``, which is being written, is lost."""
        self._deadline_ms = now_ms + METADATA_REFRESH_INTERVAL_MS
        self._epoch = epoch
        self._change = topics.change_count
