"""`MetadataCache`: the newest published image, and the queries of handlers on it.

Source: KRaftMetadataCache of Apache Kafka.
"""

from collections.abc import Hashable, Mapping, Set
from typing import Final

from ottla.metadata.cluster import BrokerRegistration
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.topics import PartitionRegistration, TopicImage
from ottla.ports import Clock
from ottla.types import Endpoint, NodeId, Offset, TopicPartition, Uuid
from ottla.wire.codec import EncodedArray

LISTED_AFTER_FENCING_MS: Final = 9_000
"""How long Metadata responses still list a fenced broker: as long as Kafka, which fences after the session timeout.

A response must not drop a broker in the same step in which its partitions move. librdkafka (2.16 at least) ends its
thread for a broker that a response leaves out before that thread has handed over the partitions that the same response
moves elsewhere: they then wait for its next check of partitions without a leader, up to a second later.
"""

_ENCODED_BYTES_MAX = 8 * 1024 * 1024


class MetadataCache:
    """Reads of one immutable image at a time; ``image`` never changes under a reader, it is replaced."""

    def __init__(self, clock: Clock) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self._clock = clock
        self._listed_until_ms: dict[NodeId, int] = {}
        self._encoded: dict[Uuid, dict[Hashable, EncodedArray]] = {}
        self._encoded_bytes = 0
        self._led: tuple[Set[NodeId], frozenset[Uuid]] | None = None

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Replace the image; a publisher of `MetadataLoader`."""
        if image.cluster is not self.image.cluster:
            self._clear_encoded()
            self._note_fenced(image)
        for topic_id in (*delta.topics.changed_topics, *delta.topics.deleted_topics):
            gone = self._encoded.pop(topic_id, {})
            self._encoded_bytes -= sum(len(encoded.data) for encoded in gone.values())
        self.image = image
        self._led = None

    def _note_fenced(self, image: MetadataImage) -> None:
        now_ms = self._clock.monotonic_ms()
        before = self.image.cluster.brokers
        for broker_id, broker in image.cluster.brokers.items():
            known = before.get(broker_id)
            is_same_process = known is not None and known.epoch == broker.epoch
            if not broker.is_fenced or not is_same_process:
                self._listed_until_ms.pop(broker_id, None)
            elif known is not None and not known.is_fenced:
                self._listed_until_ms[broker_id] = now_ms + LISTED_AFTER_FENCING_MS

    def encoded_partitions(self, topic: TopicImage, view: Hashable) -> EncodedArray | None:
        """Return a topic's partitions from `keep_encoded_partitions`; None when topic or brokers have changed since.

        Args:
            topic: from the current image.
            view: all that the response depends on besides the image, the version included.
        """
        return self._encoded.get(topic.topic_id, {}).get(view)

    def keep_encoded_partitions(self, topic: TopicImage, view: Hashable, encoded: EncodedArray) -> None:
        """Keep the partitions of ``topic``, which is from the current image, until topic or brokers change."""
        if self._encoded_bytes + len(encoded.data) > _ENCODED_BYTES_MAX:
            self._clear_encoded()
        self._encoded.setdefault(topic.topic_id, {})[view] = encoded
        self._encoded_bytes += len(encoded.data)

    def topics_led_by(self, leaders: Set[NodeId]) -> frozenset[Uuid]:
        """Return the topics with a partition that one of ``leaders`` leads; the last result is cached."""
        if self._led is None or self._led[0] != leaders:
            led = frozenset(
                topic_id
                for topic_id, topic in self.image.topics.by_id.items()
                if any(partition.leader in leaders for partition in topic.partitions.values())
            )
            self._led = (frozenset(leaders), led)
        return self._led[1]

    def _clear_encoded(self) -> None:
        self._encoded.clear()
        self._encoded_bytes = 0

    @property
    def offset(self) -> Offset:
        """Offset of the last record in the image; -1 before the first."""
        return self.image.provenance.last_contained_offset

    def topic(self, name: str) -> TopicImage | None:
        return self.image.topics.by_name.get(name)

    def topic_by_id(self, topic_id: Uuid) -> TopicImage | None:
        return self.image.topics.by_id.get(topic_id)

    def topic_id(self, name: str) -> Uuid | None:
        topic = self.image.topics.by_name.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: Uuid) -> str | None:
        topic = self.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_names(self) -> list[str]:
        """Every topic name, sorted."""
        return sorted(self.image.topics.by_name)

    def partition_count(self, name: str) -> int | None:
        """Number of partitions of the topic; None when there is no such topic."""
        topic = self.image.topics.by_name.get(name)
        return None if topic is None else len(topic.partitions)

    def partition(self, topic_partition: TopicPartition) -> PartitionRegistration | None:
        return self.image.topics.partition(topic_partition)

    def broker(self, broker_id: NodeId) -> BrokerRegistration | None:
        return self.image.cluster.brokers.get(broker_id)

    def is_alive(self, broker_id: NodeId) -> bool:
        """Whether the broker is registered and not fenced; also during its controlled shutdown."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced

    def alive_brokers(self) -> list[BrokerRegistration]:
        """Every registered broker that is not fenced, by id."""
        return [broker for _, broker in sorted(self.image.cluster.brokers.items()) if not broker.is_fenced]

    def lately_fenced_brokers(self) -> list[BrokerRegistration]:
        """Brokers that were fenced within `LISTED_AFTER_FENCING_MS` and have not registered again, by id."""
        if not self._listed_until_ms:
            return []
        now_ms = self._clock.monotonic_ms()
        self._listed_until_ms = {
            each: until_ms for each, until_ms in self._listed_until_ms.items() if until_ms > now_ms
        }
        found = (self.image.cluster.brokers.get(broker_id) for broker_id in sorted(self._listed_until_ms))
        return [broker for broker in found if broker is not None]

    def broker_endpoint(self, broker_id: NodeId, listener: str) -> Endpoint | None:
        """Address that an alive broker advertises for ``listener``; None when it is fenced or has no such listener."""
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            return None
        found = broker.listeners.get(listener)
        return None if found is None else found.endpoint

    def leader_endpoint(self, topic_partition: TopicPartition, listener: str) -> Endpoint | None:
        """Address of the partition's leader; None when it has no leader that is alive."""
        partition = self.partition(topic_partition)
        return None if partition is None else self.broker_endpoint(partition.leader, listener)

    def leader_id(self, topic_partition: TopicPartition) -> NodeId | None:
        """Return the leader of a partition, -1 while it has none; None when the partition does not exist."""
        partition = self.partition(topic_partition)
        return None if partition is None else partition.leader

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Settings of the topic itself, without defaults."""
        return self.image.configs.of_topic(name)

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Settings of the group itself, without defaults."""
        return self.image.configs.of_group(group_id)

    def feature_level(self, name: str) -> int:
        """The finalized level of a feature; 0 when it is not finalized."""
        return self.image.features.levels.get(name, 0)
