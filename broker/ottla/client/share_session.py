"""`ShareSession`: the session of one member of a share group with one leader (KIP-932), without I/O.

The leader keeps the partitions of a session: a request names only those that are added, removed or acknowledged.

Source: ShareSessionHandler (Kafka 4.3).
"""

from collections.abc import Iterable, Mapping

from ottla.types import TopicIdPartition, Uuid
from ottla.wire.messages.share_acknowledge import AcknowledgementBatch as AcknowledgedBatch
from ottla.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic
from ottla.wire.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic
from ottla.wire.session_epochs import INITIAL_EPOCH, next_epoch


class ShareSession:
    """See the module; ``epoch`` is that of the next request, `INITIAL_EPOCH` while the leader has no session."""

    def __init__(self) -> None:
        self.epoch = INITIAL_EPOCH
        self._known: set[TopicIdPartition] = set()

    def on_success(self) -> None:
        """Note that the leader has carried out the request with ``epoch``."""
        self.epoch = next_epoch(self.epoch)

    def on_lost(self) -> None:
        """Start a new session: the leader has none, or another one, or did not respond."""
        self.epoch = INITIAL_EPOCH
        self._known = set()

    def fetch_topics(
        self,
        wanted: set[TopicIdPartition],
        acknowledged: Mapping[TopicIdPartition, list[AcknowledgementBatch]],
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Return the topics and the ``forgotten_topics_data`` of a ShareFetch for the partitions in ``wanted``."""
        named = sorted((wanted - self._known) | acknowledged.keys())
        gone = sorted(self._known - wanted)
        self._known = set(wanted)
        topics = [
            FetchTopic(
                topic_id=topic_id,
                partitions=[
                    FetchPartition(partition_index=each.partition, acknowledgement_batches=acknowledged.get(each, []))
                    for each in partitions
                ],
            )
            for topic_id, partitions in _by_topic(named)
        ]
        removed = [
            ForgottenTopic(topic_id=topic_id, partitions=[each.partition for each in partitions])
            for topic_id, partitions in _by_topic(gone)
        ]
        return topics, removed


def acknowledge_topics(acknowledged: Mapping[TopicIdPartition, list[AcknowledgementBatch]]) -> list[AcknowledgeTopic]:
    """Return the topics of a ShareAcknowledge."""
    return [
        AcknowledgeTopic(
            topic_id=topic_id,
            partitions=[
                AcknowledgePartition(
                    partition_index=each.partition,
                    acknowledgement_batches=[
                        AcknowledgedBatch(
                            first_offset=batch.first_offset,
                            last_offset=batch.last_offset,
                            acknowledge_types=batch.acknowledge_types,
                        )
                        for batch in acknowledged[each]
                    ],
                )
                for each in partitions
            ],
        )
        for topic_id, partitions in _by_topic(sorted(acknowledged))
    ]


def _by_topic(partitions: Iterable[TopicIdPartition]) -> list[tuple[Uuid, list[TopicIdPartition]]]:
    by_topic: dict[Uuid, list[TopicIdPartition]] = {}
    for each in partitions:
        by_topic.setdefault(each.topic_id, []).append(each)
    return list(by_topic.items())
