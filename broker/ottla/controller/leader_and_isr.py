"""`LeaderAndIsrControl`: changes of partitions when a broker is fenced, unfenced, or may have lost data.

Source: ReplicationControlManager.generateLeaderAndIsrUpdates and its callers in Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.controller.configs import ConfigControl
from ottla.controller.last_known_leaders import LastKnownLeaders
from ottla.controller.partition_change import Election, PartitionChange
from ottla.controller.partition_index import NOWHERE
from ottla.controller.state import ControllerState
from ottla.metadata.cluster import DIRECTORY_UNASSIGNED
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER, TopicImage
from ottla.types import NodeId, TopicIdPartition, Uuid

NO_BROKER = -1


class _Rules(NamedTuple):
    """Rules of elections from a topic's configuration and the cluster's features."""

    min_isr: int
    elr_enabled: bool
    election: Election
    keeps_confirmed: bool
    """Whether confirmed records of a replica are on its disk (ottla.acks.fsync)."""


class LeaderAndIsrControl:
    """Builds the change records; changes nothing itself.

    Its iterators decide each record on the state that has those before, and yield None for a partition that does not
    change: a long decision is made in slices.
    """

    def __init__(self, state: ControllerState, configs: ConfigControl, last_known_leaders: LastKnownLeaders) -> None:
        self._state = state
        self._configs = configs
        self._last_known_leaders = last_known_leaders
        self._rules_from = (state.image.configs, state.image.features)
        self._rules: dict[Uuid, _Rules] = {}

    def on_fenced(self, broker_id: NodeId) -> Iterator[MetadataRecord | None]:
        """Remove the broker from every in-sync set, and elect other leaders for its partitions."""
        return self._changes(self._state.index.in_sync.get(broker_id, NOWHERE), leaving=broker_id)

    def on_unfenced(self, broker_id: NodeId) -> Iterator[MetadataRecord | None]:
        """Elect leaders of partitions that have none, now that the broker is there."""
        return self._changes(self._state.index.led.get(NO_LEADER, NOWHERE), coming=broker_id)

    def elect_missing(self) -> Iterator[MetadataRecord | None]:
        """Elect leaders of partitions that could have one: the former controller may have ended before it did."""
        return self._changes(self._state.index.led.get(NO_LEADER, NOWHERE))

    def on_unclean_shutdown(self, broker_id: NodeId, directories: frozenset[Uuid]) -> Iterator[MetadataRecord | None]:
        """Trust the broker only for topics with ottla.acks.fsync: it may have lost unsynced records (KIP-966).

        The confirmed records of such a topic are on disk, so a replica that was in sync or eligible has everything that
        is committed, however its process ended: it is treated as fenced. This applies while the replica's log directory
        is one of ``directories``, those that the broker is back with, and not another disk in its place.
        """
        index = self._state.index
        concerned = {**index.in_sync.get(broker_id, NOWHERE), **index.eligible.get(broker_id, NOWHERE)}
        return self._changes(concerned, lost_data=broker_id, kept_directories=directories)

    def on_directories_offline(
        self, broker_id: NodeId, directories: frozenset[Uuid]
    ) -> Iterator[MetadataRecord | None]:
        """Remove the broker from the in-sync set of the partitions in ``directories``."""
        concerned = [
            TopicIdPartition(topic.topic_id, partition_id)
            for topic, partition_id, partition in self._state.at(self._state.index.in_sync.get(broker_id, NOWHERE))
            if partition.directory_of(broker_id) in directories
        ]
        return self._changes(concerned, leaving=broker_id)

    def change(
        self,
        topic: TopicImage,
        partition_id: int,
        may_lead: Callable[[NodeId], bool] | None = None,
        *,
        directories: Mapping[NodeId, Uuid] | None = None,
    ) -> PartitionChange:
        """Return a change of one partition that by itself only elects a leader if one is needed.

        ``directories`` are newly known directories of replicas, by broker; the election already uses them.
        """
        partition = topic.partitions[partition_id]
        cluster = self._state.image.cluster
        accepts = may_lead or cluster.is_active
        known = directories or {}

        def may_lead_it(broker_id: NodeId) -> bool:
            if not accepts(broker_id) or broker_id not in partition.replicas:
                return False
            broker = cluster.brokers.get(broker_id)
            directory = known.get(broker_id) or partition.directory_of(broker_id)
            return broker is not None and broker.has_online_directory(directory)

        rules = self._rules_of(topic)
        return PartitionChange(
            topic_id=topic.topic_id,
            partition_id=partition_id,
            partition=partition,
            may_lead=may_lead_it,
            min_isr=rules.min_isr,
            elr_enabled=rules.elr_enabled,
            default_directory=self._default_directory,
            election=rules.election,
            directories=known,
            last_seen_leader=self._last_known_leaders.last_seen(
                TopicIdPartition(topic.topic_id, partition_id), partition
            ),
        )

    def _rules_of(self, topic: TopicImage) -> _Rules:
        """Return the topic's rules, cached: a broker may have ten thousand partitions of a few topics."""
        image = self._state.image
        has_changed = self._rules_from[0] is not image.configs or self._rules_from[1] is not image.features
        if has_changed or len(self._rules) > len(image.topics.by_id):
            self._rules_from = (image.configs, image.features)
            self._rules = {}
        rules = self._rules.get(topic.topic_id)
        if rules is None:
            rules = self._rules[topic.topic_id] = _Rules(
                min_isr=self._configs.min_insync_replicas(topic.name),
                elr_enabled=image.features.is_elr_enabled,
                election=Election.UNCLEAN if self._configs.unclean_election_enabled(topic.name) else Election.ONLINE,
                keeps_confirmed=self._configs.syncs_before_acknowledging(topic.name),
            )
        return rules

    def _changes(
        self,
        concerned: Iterable[TopicIdPartition],
        *,
        leaving: NodeId = NO_BROKER,
        coming: NodeId = NO_BROKER,
        lost_data: NodeId = NO_BROKER,
        kept_directories: frozenset[Uuid] = frozenset(),
    ) -> Iterator[MetadataRecord | None]:
        is_active = self._state.image.cluster.is_active
        gone = frozenset({leaving, lost_data}) - {NO_BROKER}

        def may_lead(broker_id: NodeId) -> bool:
            return broker_id not in gone and (broker_id == coming or is_active(broker_id))

        versions = self._state.image.features.record_versions
        for topic, partition_id, partition in self._state.at(concerned):
            change = self.change(topic, partition_id, may_lead)
            change.isr = [replica for replica in partition.isr if replica not in gone]
            if lost_data != NO_BROKER:
                is_on_disk = partition.directory_of(lost_data) in kept_directories
                if not (is_on_disk and self._rules_of(topic).keeps_confirmed):
                    change.unclean_shutdown = frozenset({lost_data})
            yield change.to_record(versions)

    def _default_directory(self, broker_id: NodeId) -> Uuid:
        broker = self._state.image.cluster.brokers.get(broker_id)
        return DIRECTORY_UNASSIGNED if broker is None else broker.default_directory
