"""Requests of brokers and administrators to a controller, with defaults for the values that a test does not name."""

from collections.abc import Sequence
from typing import Any

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.metadata.image import MetadataImage
from ottla.metadata.metadata_version import SUPPORTED_FEATURES
from ottla.metadata.topics import PartitionRegistration
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_voter_quorum import CLUSTER_ID
from ottla.types import NodeId, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages import assign_replicas_to_dirs as assign_api
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from ottla.wire.messages.broker_registration import Listener as RegisteredListener
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.controller_registration import Feature as ControllerFeature
from ottla.wire.messages.controller_registration import Listener as ControllerListener
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


class RequestHelpers:
    """Requests of brokers and administrators, with defaults for the values that a test does not name."""

    random: SeededRandom
    image: MetadataImage

    def ask(self, request: Message) -> Any:
        raise NotImplementedError

    def registration(self, broker_id: NodeId, **overrides: Any) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=overrides.get("cluster_id", CLUSTER_ID),
            incarnation_id=overrides.get("incarnation_id", self.random.uuid()),
            listeners=[RegisteredListener(name="PLAINTEXT", host=f"broker-{broker_id}", port=9092)],
            features=[
                Feature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ],
            rack=overrides.get("rack"),
            log_dirs=overrides.get("log_dirs", [Uuid(bytes([broker_id + 100]) * 16)]),
            previous_broker_epoch=overrides.get("previous_broker_epoch", -1),
        )

    def heartbeat(self, broker_id: NodeId, **overrides: Any) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=overrides.get("epoch", self.epoch_of(broker_id)),
            current_metadata_offset=overrides.get("offset", self.image.provenance.last_contained_offset),
            want_fence=overrides.get("want_fence", False),
            want_shut_down=overrides.get("want_shut_down", False),
            offline_log_dirs=overrides.get("offline_log_dirs", []),
            cordoned_log_dirs=overrides.get("cordoned_log_dirs"),
        )

    def controller_registration(self, controller_id: NodeId, **overrides: Any) -> ControllerRegistrationRequest:
        return ControllerRegistrationRequest(
            controller_id=controller_id,
            incarnation_id=overrides.get("incarnation_id", self.random.uuid()),
            listeners=[ControllerListener(name="CONTROLLER", host=f"controller-{controller_id}", port=9093)],
            features=[
                ControllerFeature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in {**SUPPORTED_FEATURES, **overrides.get("features", {})}.items()
            ],
        )

    def epoch_of(self, broker_id: NodeId) -> int:
        broker = self.image.cluster.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def add_brokers(self, *broker_ids: NodeId, racks: dict[int, str] | None = None, directories: int = 1) -> None:
        """Register and unfence the brokers."""
        for broker_id in broker_ids:
            log_dirs = [Uuid(bytes([broker_id + 100 + 50 * each]) * 16) for each in range(directories)]
            rack = (racks or {}).get(broker_id)
            response = self.ask(self.registration(broker_id, rack=rack, log_dirs=log_dirs))
            assert response.error_code == ErrorCode.NONE
            assert not self.ask(self.heartbeat(broker_id)).is_fenced

    def create_topic(self, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> Any:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        return self.ask(CreateTopicsRequest(topics=[topic])).topics[0]

    def broker_of(self, broker_id: NodeId) -> Any:
        return self.image.cluster.brokers[broker_id]

    def partition(self, topic: str, partition: int = 0) -> PartitionRegistration:
        return self.image.topics.by_name[topic].partitions[partition]

    def assign(self, name: str, *replicas: list[NodeId], **configs: str) -> Any:
        """Create a topic whose partitions have these replicas."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=partition, broker_ids=broker_ids)
                for partition, broker_ids in enumerate(replicas)
            ],
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        response = self.ask(CreateTopicsRequest(topics=[topic])).topics[0]
        assert response.error_code == ErrorCode.NONE, response
        return response

    def isr_proposal(
        self, topic: str, isr: Sequence[NodeId], partition: int = 0, **overrides: Any
    ) -> AlterPartitionRequestPartitionData:
        """Return the proposal of another in-sync set on the newest metadata."""
        known = self.image.topics.by_name[topic].partitions.get(partition)
        epochs = overrides.get("epochs", {})
        wanted = AlterPartitionRequestPartitionData(
            partition_index=partition,
            leader_epoch=overrides.get("leader_epoch", known.leader_epoch if known else 0),
            partition_epoch=overrides.get("partition_epoch", known.partition_epoch if known else 0),
            leader_recovery_state=overrides.get("recovery", 0),
        )
        if overrides.get("version") == 2:
            wanted.new_isr = list(isr)
        else:
            wanted.new_isr_with_epochs = [
                BrokerState(broker_id=each, broker_epoch=epochs.get(each, self.epoch_of(each))) for each in isr
            ]
        return wanted

    def alter_partition(self, topic: str, isr: Sequence[NodeId], partition: int = 0, **overrides: Any) -> Any:
        """Propose another in-sync set as the leader; return the partition's response."""
        known = self.image.topics.by_name[topic].partitions.get(partition)
        topic_id = overrides.get("topic_id", self.image.topics.by_name[topic].topic_id)
        proposer = overrides.get("proposer", known.leader if known else 1)
        wanted = self.isr_proposal(topic, isr, partition, **overrides)
        response = self.ask(
            AlterPartitionRequest(
                broker_id=proposer,
                broker_epoch=overrides.get("broker_epoch", self.epoch_of(proposer)),
                topics=[AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[wanted])],
            )
        )
        return response.topics[0].partitions[0] if response.topics else response

    def reassign(self, topic: str, replicas: list[NodeId] | None, partition: int = 0, **overrides: Any) -> Any:
        """Reassign a partition, or cancel with None; return the partition's response."""
        wanted = ReassignableTopic(
            name=topic, partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)]
        )
        return self.ask(AlterPartitionReassignmentsRequest(topics=[wanted], **overrides)).responses[0].partitions[0]

    def put(self, topic: str, broker_id: NodeId, directory: Uuid, partition: int = 0) -> int:
        """Report ``directory`` of the broker's replica; return the error code."""
        assigned = assign_api.AssignReplicasToDirsRequestTopicData(
            topic_id=self.image.topics.by_name[topic].topic_id,
            partitions=[assign_api.AssignReplicasToDirsRequestPartitionData(partition_index=partition)],
        )
        request = assign_api.AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=self.epoch_of(broker_id),
            directories=[assign_api.AssignReplicasToDirsRequestDirectoryData(id=directory, topics=[assigned])],
        )
        response = self.ask(request)
        code: int = response.directories[0].topics[0].partitions[0].error_code
        return code

    def elect_request(self, topic: str, how: int, partition: int = 0) -> ElectLeadersRequest:
        return ElectLeadersRequest(
            election_type=how, topic_partitions=[TopicPartitions(topic=topic, partitions=[partition])]
        )

    def configure(self, resource_type: ConfigResourceType, name: str, key: str, value: str | None) -> Any:
        config = AlterableConfig(name=key, config_operation=0 if value is not None else 1, value=value)
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
        return self.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses[0]
