"""`ElectLeadersControl`: elections that a client requests.

Source: KIP-460; ReplicationControlManager.electLeaders of Apache Kafka 4.3, whose error codes and texts these are.
"""

from ottla.controller.leader_and_isr import LeaderAndIsrControl
from ottla.controller.partition_change import Election
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.metadata_version import RecordVersions
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import PartitionRegistration
from ottla.quoting import cut_name
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1


class ElectLeadersControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState, leader_and_isr: LeaderAndIsrControl) -> None:
        self._state = state
        self._leader_and_isr = leader_and_isr

    def elect_leaders(self, request: ElectLeadersRequest) -> ControllerResult[ElectLeadersResponse]:
        """Elect leaders of the named partitions; without any, of all partitions that need an election.

        Raises:
            KafkaError: INVALID_REQUEST: unknown type of election.
        """
        if request.election_type not in (PREFERRED, UNCLEAN):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
        election = Election.PREFERRED if request.election_type == PREFERRED else Election.UNCLEAN
        records: list[MetadataRecord] = []
        results = []
        everywhere = request.topic_partitions is None
        for topic, partitions in self._wanted(request):
            result = ReplicaElectionResult(topic=topic)
            results.append(result)
            for partition in partitions:
                partition_result = PartitionResult(partition_id=partition, error_message=None)
                try:
                    records.append(self._elect(topic, partition, election))
                except KafkaError as error:
                    if everywhere and error.code is ErrorCode.ELECTION_NOT_NEEDED:
                        continue
                    partition_result.error_code, partition_result.error_message = error.code, error.message
                result.partition_result.append(partition_result)
        return ControllerResult(ElectLeadersResponse(replica_election_results=results), records, is_atomic=False)

    def _wanted(self, request: ElectLeadersRequest) -> list[tuple[str, list[int]]]:
        if request.topic_partitions is None:
            return [(name, sorted(topic.partitions)) for name, topic in self._state.image.topics.by_name.items()]
        return [(each.topic, each.partitions) for each in request.topic_partitions]

    def _elect(self, topic_name: str, partition_id: int, election: Election) -> MetadataRecord:
        topic = self._state.image.topics.by_name.get(topic_name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {cut_name(topic_name)}")
        partition = topic.partitions.get(partition_id)
        if partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {cut_name(topic_name)}-{partition_id}"
            )
        if not _is_needed(partition, election):
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        change = self._leader_and_isr.change(topic, partition_id)
        change.election = election
        versions: RecordVersions = self._state.image.features.record_versions
        record = change.to_record(versions)
        if record is None:
            if election is Election.PREFERRED:
                raise KafkaError(
                    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                    "The preferred leader was not available.",
                )
            raise KafkaError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
            )
        return record


def _is_needed(partition: PartitionRegistration, election: Election) -> bool:
    if election is Election.PREFERRED:
        return partition.leader != partition.preferred_replica
    return not partition.has_leader
