"""`DirectoryControl`: brokers report the log directory of each replica (KIP-858).

The controller needs it to determine which replicas a failed directory affects.

Source: ReplicationControlManager.handleAssignReplicasToDirs of Apache Kafka 4.3.
"""

from ottla.controller.leader_and_isr import LeaderAndIsrControl
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.cluster import BrokerRegistration
from ottla.metadata.records import MetadataRecord
from ottla.types import Uuid
from ottla.wire.messages import assign_replicas_to_dirs as api


class DirectoryControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState, leader_and_isr: LeaderAndIsrControl) -> None:
        self._state = state
        self._leader_and_isr = leader_and_isr

    def assign(self, request: api.AssignReplicasToDirsRequest) -> ControllerResult[api.AssignReplicasToDirsResponse]:
        """Record each replica's directory; remove those in an offline directory from the in-sync sets.

        Raises:
            KafkaError: STALE_BROKER_EPOCH; UNSUPPORTED_VERSION below the metadata.version that has directories.
        """
        if not self._state.image.features.record_versions.supports_directories:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
        broker = self._state.broker_with_epoch(request.broker_id, request.broker_epoch)
        records: list[MetadataRecord] = []
        response = api.AssignReplicasToDirsResponse()
        for directory in request.directories:
            directory_response = api.AssignReplicasToDirsResponseDirectoryData(id=directory.id)
            response.directories.append(directory_response)
            for topic in directory.topics:
                topic_response = api.AssignReplicasToDirsResponseTopicData(topic_id=topic.topic_id)
                directory_response.topics.append(topic_response)
                for partition in topic.partitions:
                    error = self._assign(broker, directory.id, topic.topic_id, partition.partition_index, records)
                    topic_response.partitions.append(
                        api.AssignReplicasToDirsResponsePartitionData(
                            partition_index=partition.partition_index, error_code=error
                        )
                    )
        return ControllerResult(response, records, is_atomic=False)

    def _assign(
        self,
        broker: BrokerRegistration,
        directory: Uuid,
        topic_id: Uuid,
        partition_id: int,
        records: list[MetadataRecord],
    ) -> ErrorCode:
        topic = self._state.image.topics.by_id.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = topic.partitions.get(partition_id)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        change = self._leader_and_isr.change(topic, partition_id, directories={broker.broker_id: directory})
        if not broker.has_online_directory(directory):
            change.isr = [replica for replica in partition.isr if replica != broker.broker_id]
        record = change.to_record(self._state.image.features.record_versions)
        records += [] if record is None else [record]
        return ErrorCode.NONE
