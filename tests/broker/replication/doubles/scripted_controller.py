"""A controller as a list of metadata records, whose AlterPartition decides like the real one."""

from typing import Any

from ottla.errors import ErrorCode
from ottla.metadata.cluster import RESERVED_DIRECTORIES_END
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.metadata.topics import PartitionRegistration
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from ottla.wire.messages.metadata_log import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

DIRECTORY_ID = Uuid(b"d" * 16)
"""The log directory of every broker."""


class Controller:
    """The metadata log as a list of records, and AlterPartition with the real one's decisions."""

    def __init__(self) -> None:
        self.records: list[Message] = []
        self.image: MetadataImage = EMPTY_IMAGE
        self.requests: list[AlterPartitionRequest] = []
        self.assigned_directories: list[AssignReplicasToDirsRequest] = []
        self.rejects_with: dict[int, ErrorCode] = {}
        """By partition: the error of the next response, once."""
        self.is_reachable = True
        self._epoch = 100

    def write(self, *records: Message) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.records += records
        self.image = delta.apply(Provenance(len(self.records) - 1, 1, 0))

    def register(self, broker_id: int, *, rack: str | None = None) -> int:
        self._epoch += 1
        end_points = [BrokerEndpoint(name="PLAINTEXT", host=f"node{broker_id}", port=9092)]
        self.write(
            RegisterBrokerRecord(
                broker_id=broker_id,
                broker_epoch=self._epoch,
                incarnation_id=Uuid(self._epoch.to_bytes(16)),
                end_points=end_points,
                rack=rack,
                fenced=False,
                log_dirs=[DIRECTORY_ID],
            )
        )
        return self._epoch

    def _change_broker(self, broker_id: int, **changes: Any) -> None:
        epoch = self.image.cluster.brokers[broker_id].epoch
        self.write(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, **changes))

    def fence(self, broker_id: int) -> None:
        self._change_broker(broker_id, fenced=1)

    def unfence(self, broker_id: int) -> None:
        self._change_broker(broker_id, fenced=-1)

    def begin_shutdown(self, broker_id: int) -> None:
        self._change_broker(broker_id, in_controlled_shutdown=1)

    def create_topic(self, name: str, *assignments: tuple[int, ...], isr: tuple[int, ...] | None = None) -> Uuid:
        topic_id = Uuid(bytes(12) + len(self.records).to_bytes(4))
        records: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
        for index, replicas in enumerate(assignments):
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=list(replicas),
                    isr=list(isr or replicas),
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[DIRECTORY_ID] * len(replicas),
                )
            )
        self.write(*records)
        return topic_id

    def delete_topic(self, name: str) -> None:
        self.write(RemoveTopicRecord(topic_id=self.image.topics.by_name[name].topic_id))

    def configure(self, topic: str, key: str, value: str | None) -> None:
        self.write(ConfigRecord(resource_type=2, resource_name=topic, name=key, value=value))

    def partition(self, index: int = 0, topic: str = "t") -> PartitionRegistration:
        return self.image.topics.by_name[topic].partitions[index]

    def change(self, index: int = 0, topic: str = "t", **changes: Any) -> None:
        topic_id = self.image.topics.by_name[topic].topic_id
        self.write(PartitionChangeRecord(partition_id=index, topic_id=topic_id, **changes))

    def decide(self, request: Message) -> Message:
        if isinstance(request, AssignReplicasToDirsRequest):
            self.assigned_directories.append(request)
            self._record_directories(request)
            return _all_assigned(request)
        assert isinstance(request, AlterPartitionRequest)
        self.requests.append(request)
        if not self.is_reachable:
            return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
        response = AlterPartitionResponse()
        for topic in request.topics:
            partitions = []
            for wanted in topic.partitions:
                data = AlterPartitionResponsePartitionData(partition_index=wanted.partition_index)
                partitions.append(data)
                isr = [(state.broker_id, state.broker_epoch) for state in wanted.new_isr_with_epochs]
                data.error_code = self._check(topic.topic_id, wanted.partition_index, wanted, request.broker_id, isr)
                if data.error_code == ErrorCode.NONE:
                    name = self.image.topics.by_id[topic.topic_id].name
                    self.change(wanted.partition_index, name, isr=[broker_id for broker_id, _ in isr])
                    now = self.partition(wanted.partition_index, name)
                    data.leader_id, data.leader_epoch = now.leader, now.leader_epoch
                    data.isr, data.partition_epoch = list(now.isr), now.partition_epoch
            response.topics.append(AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
        return response

    def _record_directories(self, request: AssignReplicasToDirsRequest) -> None:
        for directory in request.directories:
            if directory.id < RESERVED_DIRECTORIES_END:
                continue  # a lost one: the tests decide about the next leader
            for topic in directory.topics:
                name = self.image.topics.by_id[topic.topic_id].name
                for each in topic.partitions:
                    known = self.partition(each.partition_index, name)
                    directories = [
                        directory.id if replica == request.broker_id else known.directory_of(replica)
                        for replica in known.replicas
                    ]
                    self.change(each.partition_index, name, directories=directories)

    def _check(self, topic_id: Uuid, index: int, wanted: Any, broker_id: int, isr: list[tuple[int, int]]) -> ErrorCode:
        rejection = self.rejects_with.pop(index, None)
        topic = self.image.topics.by_id.get(topic_id)
        if rejection is not None:
            return rejection
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        known = topic.partitions[index]
        if known.leader != broker_id or known.leader_epoch > wanted.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if known.partition_epoch != wanted.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        brokers = self.image.cluster.brokers
        for replica, epoch in isr:
            broker = brokers[replica]
            if replica not in known.isr and (not broker.is_active or epoch not in (-1, broker.epoch)):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE


def _all_assigned(request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(
        directories=[
            AssignReplicasToDirsResponseDirectoryData(
                id=directory.id,
                topics=[
                    AssignReplicasToDirsResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            AssignReplicasToDirsResponsePartitionData(partition_index=partition.partition_index)
                            for partition in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )
