"""`LastKnownLeaders`: the leader of a partition that was seen alive last, while its current one has not been yet.

A controller elects from the in-sync set of the metadata. After the loss of several nodes, and right after it has become
active itself, some of these brokers may have failed without its knowledge: such a leader never leads. If it became the
last known leader (KIP-966) when it is fenced, and no replica stayed eligible, its unclean return would elect it over
the broker that did lead, and truncate records that the latter has acknowledged. So the last known leader is the last
one that was seen alive: a broker that was not connected when it was elected counts from its first heartbeat that shows
that it has applied its election. Brokers send one as soon as they take over.

Kafka's last known leader is the one that the metadata names (PartitionChangeBuilder.maybeUpdateLastKnownLeader).

Soft state of the active controller: the next one assumes that the current leaders were seen alive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.controller.heartbeats import BrokerHeartbeats
from ottla.controller.state import ControllerState
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER, PartitionRegistration
from ottla.types import NodeId, Offset, TopicIdPartition
from ottla.wire.messages.metadata_log import PartitionChangeRecord


@dataclass(slots=True)
class _UnconfirmedElections:
    """One broker's elections: by partition, the leader seen last. ``last_offset`` is that of the newest record."""

    last_offset: Offset = -1
    led_before: dict[TopicIdPartition, NodeId] = field(default_factory=dict)


class LastKnownLeaders:
    """See the module."""

    def __init__(self, state: ControllerState, heartbeats: BrokerHeartbeats) -> None:
        self._state = state
        self._heartbeats = heartbeats
        self._by_leader: dict[NodeId, _UnconfirmedElections] = {}

    def start(self) -> None:
        """Reset: this controller has just become active."""
        self._by_leader.clear()

    def note_elections(self, records: Sequence[MetadataRecord], last_offset: Offset) -> None:
        """Record the leaders that ``records``, about to be replayed, elect; ``last_offset`` is the last one's."""
        for record in records:
            message = record.message
            if isinstance(message, PartitionChangeRecord) and message.leader >= 0:
                topic = self._state.image.topics.by_id.get(message.topic_id)
                before = None if topic is None else topic.partitions.get(message.partition_id)
                if before is not None and before.leader != message.leader:
                    partition = TopicIdPartition(message.topic_id, message.partition_id)
                    self._note(partition, before, message.leader, last_offset)

    def _note(
        self, partition: TopicIdPartition, before: PartitionRegistration, leader: NodeId, last_offset: Offset
    ) -> None:
        led_before = self.last_seen(partition, before)
        former = self._by_leader.get(before.leader)
        if former is not None:
            former.led_before.pop(partition, None)
        broker = self._state.image.cluster.brokers.get(leader)
        if broker is None or led_before in (NO_LEADER, leader):
            return
        if not self._heartbeats.is_connected(leader, broker.epoch):
            unconfirmed = self._by_leader.setdefault(leader, _UnconfirmedElections())
            unconfirmed.last_offset = last_offset
            unconfirmed.led_before[partition] = led_before

    def on_heartbeat(self, broker_id: NodeId, metadata_offset: Offset) -> None:
        """Record that a broker is alive and has applied the metadata up to ``metadata_offset``."""
        unconfirmed = self._by_leader.get(broker_id)
        if unconfirmed is not None and metadata_offset >= unconfirmed.last_offset:
            del self._by_leader[broker_id]

    def last_seen(self, partition: TopicIdPartition, registration: PartitionRegistration) -> NodeId:
        """Return the partition's last leader that was seen alive; ``registration`` is the partition's current one."""
        if registration.leader == NO_LEADER:
            return registration.last_known_elr[0] if registration.last_known_elr else NO_LEADER
        unconfirmed = self._by_leader.get(registration.leader)
        return (
            registration.leader if unconfirmed is None else unconfirmed.led_before.get(partition, registration.leader)
        )
