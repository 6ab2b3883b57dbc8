"""A node of consumer groups in memory, as clients see it: codec, handlers, coordinator, and the coordinator's log."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from memory_coordinator_log import MemoryCoordinatorLog
from memory_end_offsets import MemoryEndOffsets
from ottla.errors import ErrorCode
from ottla.groups.config import GroupConfig
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.share.group import ShareGroup
from ottla.handlers.api import RequestContext
from ottla.handlers.catalog import find
from ottla.handlers.topic_creation_errors import TopicCreationErrors
from ottla.metadata.cache import MetadataCache
from ottla.metadata.cluster import BrokerRegistration, ClusterImage, Listener
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.features import FeaturesImage
from ottla.metadata.image import MetadataImage, Provenance
from ottla.metadata.metadata_version import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from ottla.metadata.topics import PartitionRegistration, TopicImage, TopicsImage
from ottla.purgatory import Delayed
from ottla.purgatory.steps import run_to_end
from ottla.security.authorizer import AllowEveryone
from ottla.share_state.persister import Persister
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_node import anonymous_client
from ottla.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, ZERO_UUID, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.metadata_log import PartitionRecord, RemoveTopicRecord, TopicRecord
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.registry import ApiKey, request_type, response_type
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.records import RecordBatchBuilder


def serve(services: Any, request: Message, version: int, *, client_id: str | None = None) -> Delayed[Any]:
    """Pass a client's request to its handler; request and response are encoded and decoded."""
    api_key = ApiKey(request.api_key)
    served = find(api_key, version)
    assert served is not None, f"{api_key.name} v{version} is not served"
    context = RequestContext(
        api_key=api_key,
        api_version=version,
        correlation_id=1,
        client_id=client_id,
        connection=anonymous_client(),
        services=services,
        received_at_ms=services.clock.monotonic_ms(),
    )
    decoded = request_type(api_key).decode(memoryview(bytearray(request.encode(version))), version)
    return _completed(served.handler(context, decoded)).then(
        lambda response: _over_the_wire(api_key, response, version)
    )


def _completed(result: Any) -> Delayed[Any]:
    """Run the steps of a handler's result to their end, also those of a delayed one; return the final result."""
    while isinstance(result, Generator):
        result = run_to_end(result)
    if not isinstance(result, Delayed):
        return Delayed.of(result)
    completed: Delayed[Any] = Delayed()
    result.on_complete(lambda value: _completed(value).on_complete(completed.complete))
    return completed


def _over_the_wire(api_key: ApiKey, response: object, version: int) -> object:
    if not isinstance(response, Message):
        return response
    return response_type(api_key).decode(memoryview(bytearray(response.encode(version))), version)


def subscription(*topics: str) -> bytes:
    """Return the encoded subscription of a consumer to ``topics``."""
    return b"\0\0" + ConsumerProtocolSubscription(topics=list(topics)).encode(0)


@dataclass(kw_only=True)
class ControllerStub:
    """Records the node's requests to the controller; those of clients change topics at once."""

    change_topics: Callable[[Message], Message]
    sent: list[Message] = field(default_factory=list)
    response: Delayed[Message] = field(default_factory=Delayed)

    def send(self, request: Message) -> Delayed[Message]:
        self.sent.append(request)
        return self.response

    def forward(self, request: Message, *_: object) -> Delayed[Message]:
        return Delayed.of(self.change_topics(request))

    def handle_locally(self, request: Message, *_: object) -> Delayed[Message]:
        return self.forward(request)


class GroupNode:
    """One node as clients of groups see it: `call` goes through codec, handler and coordinator."""

    PARTITIONS = 4

    def __init__(
        self,
        config: GroupConfig | None = None,
        topics: dict[str, int] | None = None,
        persister: Persister | None = None,
    ) -> None:
        self.config = config or GroupConfig(min_session_timeout_ms=100, initial_rebalance_delay_ms=500)
        self.persister = persister
        self.clock = SimulatedClock()
        self.random = SeededRandom(1)
        self.log = MemoryCoordinatorLog()
        self.metadata = MetadataCache(self.clock)
        self.controller = ControllerStub(change_topics=self.change_topics)
        self.set_topics({CONSUMER_OFFSETS_TOPIC: self.PARTITIONS, "t": 3, "u": 1} if topics is None else topics)
        self.node_config = SimpleNamespace(
            node_id=1,
            ottla_advertise_dialled_address=False,
            offsets_topic_num_partitions=50,
            offsets_topic_replication_factor=1,
            offsets_topic_segment_bytes=104857600,
            transaction_state_log_num_partitions=50,
            transaction_state_log_replication_factor=3,
            transaction_state_log_min_isr=2,
            transaction_state_log_segment_bytes=104857600,
            request_timeout_ms=30_000,
            group_coordinator_rebalance_protocols=("classic", "consumer", "streams"),
        )
        self.end_offsets = MemoryEndOffsets()
        self.groups = self.new_coordinator()
        self.elect()

    def set_topics(self, topics: dict[str, int]) -> None:
        """Set the existing topics, with their partition counts; broker 1 leads every partition."""
        by_name = {}
        for number, (name, count) in enumerate(topics.items(), 1):
            partitions = {index: PartitionRegistration((1,), (1,), 1, 0, 0, (ZERO_UUID,)) for index in range(count)}
            by_name[name] = TopicImage(name, Uuid(bytes([number] * 16)), partitions)
        broker = BrokerRegistration(
            broker_id=1,
            epoch=0,
            incarnation_id=ZERO_UUID,
            listeners={"PLAINTEXT": Listener("127.0.0.1", 9092, 0)},
            features={},
            rack=None,
            in_controlled_shutdown=False,
            directories=(),
            is_fenced=False,
        )
        self.metadata.image = MetadataImage(
            topics=TopicsImage({topic.topic_id: topic for topic in by_name.values()}, by_name),
            cluster=ClusterImage(brokers={1: broker}),
            features=FeaturesImage({GROUP_VERSION: 1, SHARE_VERSION: 1, STREAMS_VERSION: 1}),
        )

    def publish(self, *records: Message) -> None:
        """Publish the metadata after ``records``, as the loader does."""
        delta = MetadataDelta(self.metadata.image)
        for record in records:
            delta.replay(record)
        self.metadata.publish(delta, delta.apply(Provenance(self.metadata.offset + len(records), 1, 0)))
        self.groups.on_metadata_update(delta)

    def delete_topic(self, name: str) -> None:
        topic_id = self.metadata.topic_id(name)
        assert topic_id is not None, f"there is no topic {name}"
        self.publish(RemoveTopicRecord(topic_id=topic_id))

    def add_partitions(self, name: str, partitions: range, topic_id: Uuid | None = None) -> None:
        """Add partitions to a topic, which is created if it does not exist."""
        known_id = self.metadata.topic_id(name)
        records: list[Message] = []
        if known_id is None:
            known_id = topic_id or Uuid(bytes([len(self.metadata.image.topics.by_name) + 1] * 16))
            records.append(TopicRecord(name=name, topic_id=known_id))
        for partition in partitions:
            records.append(
                PartitionRecord(
                    partition_id=partition,
                    topic_id=known_id,
                    replicas=[1],
                    isr=[1],
                    leader=1,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[ZERO_UUID],
                )
            )
        self.publish(*records)

    def new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            config=self.config,
            clock=self.clock,
            random=self.random,
            log=self.log,
            metadata=self.metadata,
            persister=self.persister,
            end_offsets=self.end_offsets,
        )

    def elect(self, leader_epoch: int = 0) -> None:
        """Lead every partition, and load it to its end."""
        for partition in range(self.metadata.partition_count(CONSUMER_OFFSETS_TOPIC) or 0):
            self.groups.on_elected(partition, leader_epoch, iter(list(self.log.batches.get(partition, []))))
        while self.groups.next_deadline_ms() == self.clock.monotonic_ms():
            self.groups.tick(self.clock.monotonic_ms())

    def restart(self) -> None:
        """Restart with only the log."""
        self.groups = self.new_coordinator()
        self.elect()

    def advance(self, milliseconds: int) -> None:
        """Advance the time, and run every deadline at its millisecond."""
        end_ms = self.clock.monotonic_ms() + milliseconds
        while (deadline_ms := self.groups.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.clock.advance(max(deadline_ms - self.clock.monotonic_ms(), 0))
            self.groups.tick(self.clock.monotonic_ms())
        self.clock.advance(end_ms - self.clock.monotonic_ms())

    def call(self, request: Message, version: int, *, client_id: str | None = "client") -> Delayed[Any]:
        """Encode, decode and serve a request; return the response, also encoded and decoded."""
        return serve(self.services(), request, version, client_id=client_id)

    def join(self, group: str = "g", *, member_id: str = "", instance: str | None = None, **said: Any) -> Delayed[Any]:
        """Send a JoinGroup of version 3 (5 with an instance), which needs no second request for a member id."""
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=said.get("session_timeout_ms", 10_000),
            rebalance_timeout_ms=said.get("rebalance_timeout_ms", 20_000),
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=said.get("protocol_type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription(*topics))
                for name, topics in said.get("protocols", {"range": ["t"]}).items()
            ],
        )
        return self.call(request, 3 if instance is None else 5)

    def sync(
        self, member_id: str, generation: int, assign: dict[str, bytes] | None = None, **said: Any
    ) -> Delayed[Any]:
        request = SyncGroupRequest(
            group_id=said.get("group", "g"),
            generation_id=generation,
            member_id=member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=data) for to, data in (assign or {}).items()
            ],
        )
        return self.call(request, 3)

    def heartbeat(self, member_id: str, generation: int, group: str = "g") -> ErrorCode:
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        return ErrorCode(self.call(request, 4).value.error_code)

    def leave(self, member_id: str, group: str = "g") -> Delayed[Any]:
        return self.call(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)]), 5)

    def stable_group(self, count: int = 1, group: str = "g", **said: Any) -> list[str]:
        """Form a group of ``count`` new members in its first generation; return their ids, the leader's first."""
        joins = [self.join(group, **said) for _ in range(count)]
        self.advance(2 * self.config.initial_rebalance_delay_ms + 1)
        members = [joined.value.member_id for joined in joins]
        generation = joins[0].value.generation_id
        for member_id in reversed(members):
            assign = {to: to.encode() for to in members} if member_id == members[0] else None
            self.sync(member_id, generation, assign, group=group)
        return members

    def commit(self, topic: str = "t", partition: int = 0, offset: int = 1, **said: Any) -> Delayed[Any]:
        """Commit as a simple consumer, or as ``member_id`` in ``generation``."""
        request = OffsetCommitRequest(
            group_id=said.get("group", "g"),
            generation_id_or_member_epoch=said.get("generation", -1),
            member_id=said.get("member_id", ""),
            retention_time_ms=said.get("retention_time_ms", -1),
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=said.get("metadata", ""),
                        )
                    ],
                )
            ],
        )
        return self.call(request, said.get("version", 4 if "retention_time_ms" in said else 8))

    def fetch_all(self, group: str = "g", *, require_stable: bool = False) -> Delayed[Any]:
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=require_stable
        )
        return self.call(request, 8)

    def offsets(self, group: str = "g") -> dict[tuple[str, int], int]:
        """Return every committed offset of the group."""
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in self.fetch_all(group).value.groups[0].topics
            for partition in topic.partitions
        }

    def describe(self, group: str = "g") -> Any:
        return self.call(DescribeGroupsRequest(groups=[group]), 6).value.groups[0]

    def consumer_group(self, group: str = "g") -> ConsumerGroup | None:
        shard = self.groups._runtime.context_for(group).shard
        return shard.consumers.groups.get(group)

    def share_group(self, group: str = "g") -> ShareGroup | None:
        shard = self.groups._runtime.context_for(group).shard
        return shard.shares.groups.get(group)

    def write_log(self, group: str, records: list[tuple[bytes, bytes | None]]) -> None:
        """Append records to the log of the group's partition without the coordinator."""
        builder = RecordBatchBuilder()
        for key, value in records:
            builder.append(timestamp_ms=0, key=key, value=value)
        partition = self.groups.partition_for(group)
        assert partition is not None, "there is no topic of offsets"
        self.log.append(partition, builder.build())

    def change_topics(self, request: Message) -> Message:
        """Create, grow or delete topics as the controller would; return its response."""
        if isinstance(request, CreateTopicsRequest):
            for topic in request.topics:
                self.add_partitions(topic.name, range(topic.num_partitions))
            created = [
                CreatableTopicResult(name=topic.name, topic_id=self.metadata.topic_id(topic.name) or ZERO_UUID)
                for topic in request.topics
            ]
            return CreateTopicsResponse(topics=created)
        if isinstance(request, CreatePartitionsRequest):
            for grown in request.topics:
                known = self.metadata.partition_count(grown.name) or 0
                self.add_partitions(grown.name, range(known, grown.count))
            return CreatePartitionsResponse(
                results=[CreatePartitionsTopicResult(name=grown.name) for grown in request.topics]
            )
        assert isinstance(request, DeleteTopicsRequest)
        for deleted in request.topics:
            self.delete_topic(deleted.name or "")
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name=deleted.name) for deleted in request.topics])

    def services(self) -> Any:
        return SimpleNamespace(
            clock=self.clock,
            random=self.random,
            config=self.node_config,
            metadata=self.metadata,
            controller=self.controller,
            groups=self.groups,
            transactions=SimpleNamespace(
                partition_for=lambda _: self.metadata.partition_count(TRANSACTION_STATE_TOPIC)
            ),
            replicas=SimpleNamespace(find=lambda *_: self),
            authorizer=AllowEveryone(),
            topics_in_flight=set(),
            topic_creation_errors=TopicCreationErrors(),
        )
