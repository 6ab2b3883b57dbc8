"""A simulated administrator: creates, alters, deletes topics and records; moves replicas and leaders; changes voters.

A request may fail, or take effect after it was reported as failed: the administrator does not wait for any.
"""

from collections.abc import Callable

from ottla.controller.features import SAFE_DOWNGRADE, UPGRADE
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.world.cluster import CLUSTER_ID
from ottla.types import Endpoint, NodeId, Offset, Uuid
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla.wire.codec import Message
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TIMEOUT_MS = 2_000
CONTROLLER_LISTENER = "CONTROLLER"
_TOPIC, _SET = 2, 0
_PREFERRED, _UNCLEAN = 0, 1


class Administrator:
    """See the module. ``asked`` is called with a description of each request."""

    def __init__(self, host: ClientHost, brokers: list[NodeId], asked: Callable[[str], object]) -> None:
        self._host = host
        self._brokers = brokers
        self._asked = asked

    def create_topic(self, name: str, *, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        self._send(
            CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), f"create topic {name} with {replicas} replicas"
        )

    def delete_topic(self, name: str) -> None:
        state = DeleteTopicState(name=name)
        request = DeleteTopicsRequest(topics=[state], topic_names=[name], timeout_ms=TIMEOUT_MS)
        self._send(request, f"delete topic {name}")

    def set_topic_config(self, name: str, key: str, value: str) -> None:
        config = AlterableConfig(name=key, config_operation=_SET, value=value)
        resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[config])
        self._send(IncrementalAlterConfigsRequest(resources=[resource]), f"set {key}={value} of topic {name}")

    def add_partition(self, name: str) -> None:
        count = self._host.partition_count(name)
        if count:
            topic = CreatePartitionsTopic(name=name, count=count + 1)
            self._send(CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), f"add a partition to {name}")

    def reassign(self, name: str, replicas: int) -> None:
        """Move one partition to other brokers, chosen at random."""
        count = self._host.partition_count(name)
        if not count:
            return
        partition = self._host.random.randrange(count)
        brokers = list(self._brokers)
        chosen = [brokers.pop(self._host.random.randrange(len(brokers))) for _ in range(min(replicas, len(brokers)))]
        wanted = ReassignableTopic(
            name=name, partitions=[ReassignablePartition(partition_index=partition, replicas=chosen)]
        )
        request = AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
        self._send(request, f"move {name}-{partition} to {chosen}")

    def move_directory(self, name: str, paths: list[str]) -> None:
        """Move the leader's replica of one partition to one of the log directories ``paths``."""
        random = self._host.random
        count = self._host.partition_count(name)
        partition = random.randrange(count) if count else 0
        path = paths[random.randrange(len(paths))]
        target = self._host.target(name, partition)
        if target is None:
            return
        topic = AlterReplicaLogDirTopic(name=name, partitions=[partition])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
        self._send(request, f"move {name}-{partition} to {path} on its leader", at=target.endpoint)

    def elect_preferred(self) -> None:
        request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=None, timeout_ms=TIMEOUT_MS)
        self._send(request, "elect preferred leaders")

    def elect_unclean(self, name: str, partition: int) -> None:
        """Elect any live replica: the last resort when all in-sync ones have lost their disks."""
        place = TopicPartitions(topic=name, partitions=[partition])
        request = ElectLeadersRequest(election_type=_UNCLEAN, topic_partitions=[place], timeout_ms=TIMEOUT_MS)
        self._send(request, f"elect any leader for {name}-{partition}")

    def delete_records(self, name: str, partition: int, offset: Offset) -> None:
        """Request the partition's leader to delete the records below ``offset``."""
        target = self._host.target(name, partition)
        if target is None:
            return
        wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
        topic = DeleteRecordsTopic(name=name, partitions=[wanted])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        self._send(request, f"delete the records of {name}-{partition} below {offset}", at=target.endpoint)

    def add_acls(self, acls: list[Acl]) -> None:
        creations = []
        for acl in acls:
            fields = acl._asdict()
            creations.append(AclCreation(resource_pattern_type=fields.pop("pattern_type"), **fields))
        what = ", ".join(
            f"{each.permission_type.name} {each.operation.name} {each.resource_name} from {each.host}" for each in acls
        )
        self._send(CreateAclsRequest(creations=creations), what)

    def remove_denials(self) -> None:
        """Remove every DENY entry."""
        every = DeleteAclsFilter(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=PermissionType.DENY,
        )
        self._send(DeleteAclsRequest(filters=[every]), "remove every denial")

    def set_feature_level(self, name: str, level: int, *, is_upgrade: bool) -> None:
        update = FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=UPGRADE if is_upgrade else SAFE_DOWNGRADE
        )
        request = UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=[update])
        self._send(request, f"set {name} to {level}")

    def add_voter(self, node_id: NodeId, directory_id: Uuid, endpoint: Endpoint) -> None:
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=TIMEOUT_MS,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[Listener(name=CONTROLLER_LISTENER, host=endpoint.host, port=endpoint.port)],
        )
        self._send(request, f"add node {node_id} to the voters")

    def remove_voter(self, node_id: NodeId, directory_id: Uuid, on_response: Callable[[PeerResult], None]) -> None:
        request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=node_id, voter_directory_id=directory_id)
        self._send(request, f"remove node {node_id} from the voters", on_response=on_response)

    def _send(
        self,
        request: Message,
        what: str,
        *,
        at: Endpoint | None = None,
        on_response: Callable[[PeerResult], None] = lambda response: None,
    ) -> None:
        self._asked(what)
        self._host.ask(at or self._host.any_node(), request, "administrator", on_response)
