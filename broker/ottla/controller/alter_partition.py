"""`AlterPartitionControl`: a partition's leader proposes another in-sync set (AlterPartition).

The leader sends the leader epoch and the partition epoch that it knows: its proposal counts only when both are the
newest. The replicas that it adds must be registered, not fenced, not shutting down, of the incarnation that it has
seen catch up, and not in a log directory that has failed since; one of an unsteady broker (`controller.probes`) has to
wait where the in-sync set has two members and min.insync.replicas without it. The change may complete a reassignment,
and that may move the leadership away from the proposing leader.

Source: KIP-497, KIP-704, KIP-841, KIP-903; ReplicationControlManager.alterPartition of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Iterator

from ottla.controller.configs import ConfigControl
from ottla.controller.leader_and_isr import LeaderAndIsrControl
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode
from ottla.metadata.cluster import BrokerRegistration
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import (
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionRegistration,
    TopicImage,
    enough_in_sync,
)
from ottla.types import NodeId
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from ottla.wire.messages.metadata_log import PartitionChangeRecord

_ANY_EPOCH = -1

logger = logging.getLogger(__name__)


class AlterPartitionControl:
    """Decides on the newest state; changes nothing itself.

    ``is_unsteady`` returns whether a broker returned lately after it had not responded (`BrokerProbes.is_unsteady`).
    """

    def __init__(
        self,
        state: ControllerState,
        configs: ConfigControl,
        leader_and_isr: LeaderAndIsrControl,
        *,
        is_unsteady: Callable[[BrokerRegistration], bool],
    ) -> None:
        self._state = state
        self._configs = configs
        self._leader_and_isr = leader_and_isr
        self._is_unsteady = is_unsteady

    def alter_partition(self, request: AlterPartitionRequest) -> ControllerResult[AlterPartitionResponse]:
        """Change the in-sync set of each partition for which the proposal is valid; decided in slices.

        Raises:
            KafkaError: STALE_BROKER_EPOCH: the broker must register again.
        """
        self._state.broker_with_epoch(request.broker_id, request.broker_epoch)
        response = AlterPartitionResponse()
        return ControllerResult(response, self._decide(request, response), is_atomic=False)

    def _decide(
        self, request: AlterPartitionRequest, response: AlterPartitionResponse
    ) -> Iterator[MetadataRecord | None]:
        """Yield a partition's record, or None, when its outcome has been added to ``response``."""
        for topic_data in request.topics:
            topic_response = AlterPartitionResponseTopicData(topic_id=topic_data.topic_id)
            response.topics.append(topic_response)
            for wanted in topic_data.partitions:
                # Looked up for each: the image has changed with the records of the slices before.
                topic = self._state.image.topics.by_id.get(topic_data.topic_id)
                record = None
                if topic is None:
                    result = _error_response(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
                else:
                    result, record = self._alter(topic, request.broker_id, wanted)
                topic_response.partitions.append(result)
                yield record

    def _alter(
        self, topic: TopicImage, proposer: NodeId, wanted: AlterPartitionRequestPartitionData
    ) -> tuple[AlterPartitionResponsePartitionData, MetadataRecord | None]:
        partition = topic.partitions.get(wanted.partition_index)
        if partition is None:
            return _error_response(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None
        if wanted.new_isr and len(wanted.new_isr) <= len(partition.replicas):
            # Version 2 names no broker epochs.
            wanted.new_isr_with_epochs = [BrokerState(broker_id=broker_id) for broker_id in wanted.new_isr]
        error = self._check(topic, partition, proposer, wanted)
        if error is not ErrorCode.NONE:
            return _error_response(wanted, error), None
        change = self._leader_and_isr.change(topic, wanted.partition_index)
        change.isr = [each.broker_id for each in wanted.new_isr_with_epochs]
        change.leader_recovery_state = wanted.leader_recovery_state
        record = change.to_record(self._state.image.features.record_versions)
        after = partition
        if record is not None:
            message = record.message
            assert isinstance(message, PartitionChangeRecord)
            after = partition.merge(message)
            if partition.is_reassigning and not after.is_reassigning:
                logger.info("%s-%d is reassigned to %s", topic.name, wanted.partition_index, list(after.replicas))
            if message.leader not in (proposer, NO_LEADER_CHANGE):
                # The proposing leader is being removed: it must learn the new leader from the metadata.
                return _error_response(wanted, ErrorCode.NEW_LEADER_ELECTED), record
        data = AlterPartitionResponsePartitionData(
            partition_index=wanted.partition_index,
            leader_id=after.leader,
            leader_epoch=after.leader_epoch,
            isr=list(after.isr),
            leader_recovery_state=after.leader_recovery_state,
            partition_epoch=after.partition_epoch,
        )
        return data, record

    def _check(
        self,
        topic: TopicImage,
        partition: PartitionRegistration,
        proposer: NodeId,
        wanted: AlterPartitionRequestPartitionData,
    ) -> ErrorCode:
        if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
            # The proposer has newer metadata than this controller, which thus is not the active one any more.
            return ErrorCode.NOT_CONTROLLER
        if wanted.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposer != partition.leader:
            return ErrorCode.INVALID_REQUEST
        if wanted.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if not _is_valid(partition, wanted):
            return ErrorCode.INVALID_REQUEST
        if any(self._is_ineligible(each) for each in wanted.new_isr_with_epochs):
            return ErrorCode.INELIGIBLE_REPLICA
        brokers = self._state.image.cluster.brokers
        added = [each.broker_id for each in wanted.new_isr_with_epochs if each.broker_id not in partition.isr]
        if not all(brokers[each].has_online_directory(partition.directory_of(each)) for each in added):
            return ErrorCode.INELIGIBLE_REPLICA
        enough = enough_in_sync(self._configs.min_insync_replicas(topic.name))
        if len(partition.isr) >= enough and any(self._is_unsteady(brokers[each]) for each in added):
            return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    def _is_ineligible(self, replica: BrokerState) -> bool:
        broker = self._state.image.cluster.brokers.get(replica.broker_id)
        if broker is None or not broker.is_active:
            return True
        return replica.broker_epoch not in (_ANY_EPOCH, broker.epoch)


def _is_valid(partition: PartitionRegistration, wanted: AlterPartitionRequestPartitionData) -> bool:
    """Whether the proposal is valid by itself: replicas of the partition, each once, the leader among them."""
    if len(wanted.new_isr_with_epochs) > len(partition.replicas):
        return False  # before a list of any length is walked
    isr = [each.broker_id for each in wanted.new_isr_with_epochs]
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return False
    if wanted.leader_recovery_state == RECOVERING:
        # Records may have been lost in the leader's recovery: no other replica can be in sync yet.
        return len(isr) == 1 and partition.leader_recovery_state == RECOVERING
    return wanted.leader_recovery_state == RECOVERED


def _error_response(
    wanted: AlterPartitionRequestPartitionData, error: ErrorCode
) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=wanted.partition_index, error_code=error)
