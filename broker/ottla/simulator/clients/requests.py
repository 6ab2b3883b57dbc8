"""Common requests, as functions over a simulated `Client`."""

from collections.abc import Mapping, Sequence

from ottla.simulator.world.single_node import Client
from ottla.types import ZERO_UUID, NodeId, Offset, Uuid
from ottla.wire.codec.message import Records
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.records import Record, build_batch, iterate_batches, read_records

_DECOMPRESSED_BYTES_MAX = 1 << 24


def create_topic(
    client: Client,
    name: str,
    *,
    partitions: int = 1,
    replicas: int = 1,
    assignment: Sequence[NodeId] = (),
    **config: str,
) -> None:
    """Create a topic; ``config`` keys have underscores for dots, ``assignment`` the replicas of a single partition."""
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=config[key]) for key in config]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=settings)
    if assignment:
        topic.num_partitions = topic.replication_factor = -1
        topic.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(assignment))]
    response = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), CreateTopicsResponse, 7)
    assert response.topics[0].error_code == 0, response.topics[0]


def batch_of(client: Client, values: Sequence[bytes], **options: int) -> bytes:
    """Return one batch of records without keys, stamped now; ``options`` are the builder's."""
    now_ms = client.node.clock.wall_ms()
    return build_batch([Record(index, now_ms, None, value) for index, value in enumerate(values)], **options)  # type: ignore[arg-type]


def produce(
    client: Client,
    topic: str,
    batch: Records | None,
    *,
    partition: int = 0,
    acks: int = 1,
    version: int = 9,
    timeout_ms: int = 1_000,
) -> PartitionProduceResponse:
    """Produce one batch and return its partition's part of the response."""
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    return client.ask(request, ProduceResponse, version).responses[0].partition_responses[0]


def offset_commit_request(
    group: str,
    topic: str,
    offsets: Mapping[int, Offset],
    *,
    topic_id: Uuid = ZERO_UUID,
    epoch: int = -1,
    member_id: str = "",
) -> OffsetCommitRequest:
    """Return the commit of ``offsets`` by partition, of a consumer without a membership or of the member in ``epoch``.

    ``epoch`` is the generation of a classic group or the member's epoch.
    """
    committed = [
        OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        for partition, offset in offsets.items()
    ]
    topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=committed)]
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=epoch, member_id=member_id, topics=topics)


def commit_offset(client: Client, group: str, topic: str, offset: Offset, *, partition: int = 0) -> int:
    """Commit an offset, and return the partition's error code."""
    request = offset_commit_request(group, topic, {partition: offset})
    return client.ask(request, OffsetCommitResponse, 8).topics[0].partitions[0].error_code


def fetch_request(topic: str, offset: int, *, partition: int = 0, size_bytes_max: int = 1 << 20) -> FetchRequest:
    """Return a fetch of one partition that does not wait and has no session."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size_bytes_max)
    return FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=[FetchTopic(topic=topic, partitions=[wanted])])


def fetch(client: Client, topic: str, offset: int, *, partition: int = 0, version: int = 12) -> PartitionData:
    """Fetch without waiting and return the partition's part of the response."""
    response = client.ask(fetch_request(topic, offset, partition=partition), FetchResponse, version)
    return response.responses[0].partitions[0]


def records_in(data: PartitionData) -> list[Record]:
    """Return the records of a Fetch response."""
    assert isinstance(data.records, memoryview)
    return [
        record
        for batch in iterate_batches(data.records)
        for record in read_records(batch, size_bytes_max=_DECOMPRESSED_BYTES_MAX)
    ]
