"""`ReassignmentControl`: replicas moved to other brokers while the partition stays available (KIP-455, KIP-860).

A reassignment adds the new replicas to the assignment, after which they catch up; when they are in sync, the change
that adds the last one removes the old ones (`PartitionChange`). If there is nothing to wait for, that happens in the
same record.

Source: ReplicationControlManager and PartitionReassignmentRevert of Apache Kafka 4.3, whose error codes and texts
these are. A reassignment that replaces one under way is taken literally here: in Kafka a removing replica is removed
even when the new one keeps it, if that removes no other replica, and an adding one is waited for though it is not
wanted any more, if that adds no other replica.
"""

from collections.abc import Iterable

from ottla.controller.assignments import check_assignment, invalid_assignment
from ottla.controller.configs import ConfigControl
from ottla.controller.leader_and_isr import LeaderAndIsrControl
from ottla.controller.result import ControllerResult, check_record_count
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import PartitionRegistration, TopicImage
from ottla.quoting import cut_name
from ottla.types import NodeId
from ottla.wire.messages import alter_partition_reassignments as alter_api
from ottla.wire.messages import list_partition_reassignments as list_api


class ReassignmentControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState, configs: ConfigControl, leader_and_isr: LeaderAndIsrControl) -> None:
        self._state = state
        self._configs = configs
        self._leader_and_isr = leader_and_isr

    def alter(
        self, request: alter_api.AlterPartitionReassignmentsRequest
    ) -> ControllerResult[alter_api.AlterPartitionReassignmentsResponse]:
        """Start, replace or cancel the reassignment of each partition for which the request is valid.

        Raises:
            KafkaError: POLICY_VIOLATION when the whole is too large for one batch of records.
        """
        records: list[MetadataRecord] = []
        response = alter_api.AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
        )
        for topic in request.topics:
            topic_response = alter_api.ReassignableTopicResponse(name=topic.name)
            response.responses.append(topic_response)
            for wanted in topic.partitions:
                result = alter_api.ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_message=None
                )
                topic_response.partitions.append(result)
                try:
                    record = self._alter(topic.name, wanted, request.allow_replication_factor_change)
                except KafkaError as error:
                    result.error_code, result.error_message = error.code, error.message
                else:
                    records += [] if record is None else [record]
        check_record_count(records)
        return ControllerResult(response, records)

    def _alter(
        self, topic_name: str, wanted: alter_api.ReassignablePartition, allow_replication_factor_change: bool
    ) -> MetadataRecord | None:
        topic = self._state.image.topics.by_name.get(topic_name)
        if topic is None:
            raise _unknown(f"Unable to find a topic named {cut_name(topic_name)}.")
        partition = topic.partitions.get(wanted.partition_index)
        if partition is None:
            raise _unknown(f"Unable to find partition {topic_name}:{wanted.partition_index}.")
        if wanted.replicas is None:
            return self._cancel(topic, wanted.partition_index)
        check_assignment(self._state.image.cluster, wanted.replicas, None)
        if not allow_replication_factor_change:
            _check_replication_factor(partition, len(wanted.replicas))
        return self._reassign(topic, wanted.partition_index, wanted.replicas)

    def _reassign(self, topic: TopicImage, partition_id: int, replicas: list[NodeId]) -> MetadataRecord | None:
        partition = topic.partitions[partition_id]
        removing = sorted(set(partition.replicas) - set(replicas))
        adding = sorted(set(replicas) - set(partition.replicas))
        change = self._leader_and_isr.change(topic, partition_id)
        change.replicas = [*replicas, *removing]
        change.removing_replicas = removing
        change.adding_replicas = adding or [each for each in partition.adding_replicas if each in replicas]
        return change.to_record(self._state.image.features.record_versions)

    def _cancel(self, topic: TopicImage, partition_id: int) -> MetadataRecord | None:
        """Remove the adding replicas, and keep the removing ones."""
        partition = topic.partitions[partition_id]
        if not partition.is_reassigning:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        replicas = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
        isr = [replica for replica in partition.isr if replica not in partition.adding_replicas]
        if not replicas:
            raise invalid_assignment("Invalid replica assignment: addingReplicas contains all replicas.")
        if not isr:
            # Only replicas that are to be removed again are in sync: keeping one of the others may lose records.
            if not self._configs.unclean_election_enabled(topic.name):
                raise invalid_assignment(
                    f"Unable to revert partition assignment for {topic.name}:{partition_id} because it would require "
                    "an unclean leader election."
                )
            isr = [replicas[0]]
        change = self._leader_and_isr.change(topic, partition_id)
        change.isr, change.replicas = isr, replicas
        change.removing_replicas = change.adding_replicas = ()
        return change.to_record(self._state.image.features.record_versions)

    def list(
        self, request: list_api.ListPartitionReassignmentsRequest
    ) -> ControllerResult[list_api.ListPartitionReassignmentsResponse]:
        """Return the reassignments under way, of the requested partitions or of all."""
        topics = self._state.image.topics
        if request.topics is None:
            moving: dict[str, list[int]] = {}
            for topic, partition, _ in self._state.at(self._state.index.reassigning):
                moving.setdefault(topic.name, []).append(partition)
            wanted: Iterable[tuple[str, list[int]]] = sorted(moving.items())
        else:
            wanted = [(each.name, each.partition_indexes) for each in request.topics]
        found = [(name, _ongoing(topics.by_name.get(name), partitions)) for name, partitions in wanted]
        return ControllerResult(
            list_api.ListPartitionReassignmentsResponse(
                error_message=None,
                topics=[
                    list_api.OngoingTopicReassignment(name=name, partitions=moves) for name, moves in found if moves
                ],
            )
        )


def _ongoing(topic: TopicImage | None, partitions: Iterable[int]) -> list[list_api.OngoingPartitionReassignment]:
    found = [] if topic is None else [(number, topic.partitions.get(number)) for number in partitions]
    return [
        list_api.OngoingPartitionReassignment(
            partition_index=number,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
        )
        for number, partition in found
        if partition is not None and partition.is_reassigning
    ]


def _check_replication_factor(partition: PartitionRegistration, wanted: int) -> None:
    """Reject another number of replicas than the partition has, or will have when its reassignment is done."""
    present = len(set(partition.replicas) - set(partition.removing_replicas))
    if wanted != present:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {present} to {wanted}"
        )


def _unknown(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
