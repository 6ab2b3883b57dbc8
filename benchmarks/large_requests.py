"""The most expensive allowed requests, for `benchmarks.attackers`: each is repeated after its response.

They are built when an attack starts, by the codec of the broker that is attacked: its versions have flexible encodings.
Topics with batches, and the group, which must exist before, are created by `large_request_state`.
"""

import itertools
import struct
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, TypeAlias

from benchmarks import frames
from benchmarks import large_request_state as state
from benchmarks.large_request_state import message_frame

from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

RESPONSE_START_BYTES: Final = 256
"""As much of a response is handed to the client that sends requests."""
_TOPIC_RESOURCE: Final = 2

Requests: TypeAlias = Generator[bytes, bytes, None]
"""What one client sends: yields a request, receives the start of its response, from the correlation id on."""
Client: TypeAlias = Callable[[Counter[str]], Requests]
"""Begins a client's requests, which may count what they saw in the responses."""


def repeated(request: bytes) -> Client:
    """Return a client that sends the same request again and again."""

    def requests(_: Counter[str]) -> Requests:
        while True:
            yield request

    return requests


def describe_configs() -> Client:
    resource = DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=state.TOPIC)
    return repeated(message_frame(DescribeConfigsRequest(resources=[resource] * 20_000, include_documentation=True), 4))


def describe_producers() -> Client:
    topic = TopicRequest(name=state.TOPIC, partition_indexes=[0] * 2_000)
    return repeated(message_frame(DescribeProducersRequest(topics=[topic]), 0))


def describe_groups() -> Client:
    return repeated(message_frame(DescribeGroupsRequest(groups=[f"group-{number}" for number in range(90_000)]), 5))


def describe_one_group() -> Client:
    return repeated(message_frame(DescribeGroupsRequest(groups=[state.GROUP] * 400), 5))


def find_coordinators() -> Client:
    keys = [f"group-{number}" for number in range(90_000)]
    return repeated(message_frame(FindCoordinatorRequest(key_type=0, coordinator_keys=keys), 4))


def offset_fetch() -> Client:
    topic = OffsetFetchRequestTopics(name=state.TOPIC, partition_indexes=list(range(90_000)))
    group = OffsetFetchRequestGroup(group_id=state.GROUP, topics=[topic])
    return repeated(message_frame(OffsetFetchRequest(groups=[group]), 8))


def list_offsets_by_time() -> Client:
    """Look up the last record of the batch in odd partitions, in the others a time that only their headers have."""
    claimed_ms = state.now_ms() + state.CLAIMED_AHEAD_MS // 2
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=state.NEWEST_MS if index % 2 else claimed_ms)
        for index in range(state.PARTITIONS)
    ]
    topic = ListOffsetsTopic(name=state.TOPIC, partitions=partitions)
    return repeated(message_frame(ListOffsetsRequest(replica_id=-1, topics=[topic]), 6))


def fetch_unknown() -> Client:
    """Fetch 90,000 partitions that do not exist, in a new session each time."""
    return repeated(_first_fetch(90_000))


def fetch_session() -> Client:
    """Fetch 7,000 partitions that do not exist once, then continue the session by requests that name nothing.

    Ten such sessions are within the bytes that an Ottla node has for all of them.
    """
    first = _first_fetch(7_000)

    def requests(counts: Counter[str]) -> Requests:
        while True:
            error, session_id = _session_of((yield first))
            counts["sessions"] += session_id != 0
            for epoch in itertools.count(1):
                if error or not session_id:
                    break
                following = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=epoch)
                error, _ = _session_of((yield message_frame(following, 12)))

    return requests


def _first_fetch(count: int) -> bytes:
    partitions = [FetchPartition(partition=number, partition_max_bytes=1) for number in range(count)]
    topics = [FetchTopic(topic="unknown", partitions=partitions)]
    return message_frame(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, session_epoch=0, topics=topics), 12)


def _session_of(response: bytes) -> tuple[int, int]:
    """Return error code and session id: they follow correlation id, no tagged fields, and throttle time."""
    error, session_id = struct.unpack_from(">hi", response, 4 + 1 + 4)
    return error, session_id


def fetch_sparse_index() -> Client:
    return repeated(frames.fetch_request(state.TOPIC, {0: state.SMALL_BATCHES - 1}, 1))


def produce_tiny_records() -> Client:
    return _produced(state.tiny_records_batch())


def produce_decompressed() -> Client:
    return _produced(state.zeros_batch())


def _produced(batch: bytes) -> Client:
    """Return a client that produces the batch to one of the topic's partitions, each client to the next one."""
    partitions = itertools.cycle(range(state.PARTITIONS))
    requests_by_partition = [frames.produce_request(state.TOPIC, index, batch) for index in range(state.PARTITIONS)]

    def requests(counts: Counter[str]) -> Requests:
        request = requests_by_partition[next(partitions)]
        while True:
            response = yield request
            try:
                frames.check_produced(memoryview(response))
            except RuntimeError as error:
                counts[str(error)] += 1

    return requests


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeRequest:
    """A request, the state that it needs, and the generator that a client of the attack sends it with."""

    title: str
    build: Callable[[], Client]
    prepare: Callable[[tuple[str, int]], None]


REQUESTS: Final = {
    "describe-configs": LargeRequest(
        title="DescribeConfigs of one topic, 20,000 times in a request",
        build=describe_configs,
        prepare=state.create_topic,
    ),
    "describe-producers": LargeRequest(
        title=f"DescribeProducers of one partition with {state.PRODUCERS} producers, 2,000 times in a request",
        build=describe_producers,
        prepare=state.prepare_producers,
    ),
    "describe-groups": LargeRequest(
        title="DescribeGroups of 90,000 groups", build=describe_groups, prepare=state.prepare_group
    ),
    "describe-one-group": LargeRequest(
        title=f"DescribeGroups of one group of {state.MEMBER_BYTES // 1000} KB, 400 times in a request",
        build=describe_one_group,
        prepare=state.prepare_group,
    ),
    "find-coordinators": LargeRequest(
        title="FindCoordinator of 90,000 groups", build=find_coordinators, prepare=state.prepare_group
    ),
    "offset-fetch": LargeRequest(
        title="OffsetFetch of 90,000 partitions", build=offset_fetch, prepare=state.prepare_group
    ),
    "list-offsets-by-time": LargeRequest(
        title=f"ListOffsets by time of {state.PARTITIONS} partitions with batches of {state.TIMED_RECORDS:,} records, "
        "half of them with a header that claims a newer one",
        build=list_offsets_by_time,
        prepare=state.prepare_times,
    ),
    "fetch-unknown": LargeRequest(
        title="Fetch of 90,000 unknown partitions", build=fetch_unknown, prepare=state.create_topic
    ),
    "fetch-session": LargeRequest(
        title="Fetch of a session of 7,000 unknown partitions, 49 bytes a request",
        build=fetch_session,
        prepare=state.create_topic,
    ),
    "fetch-sparse-index": LargeRequest(
        title=f"Fetch of the last of {state.SMALL_BATCHES:,} batches, index.interval.bytes at its maximum",
        build=fetch_sparse_index,
        prepare=state.prepare_sparse_index,
    ),
    "produce-tiny-records": LargeRequest(
        title=f"Produce of a gzip batch of {state.TINY_RECORDS:,} records to a topic of zstd",
        build=produce_tiny_records,
        prepare=state.prepare_tiny_records,
    ),
    "produce-decompressed": LargeRequest(
        title="Produce of a zstd batch of 100 MB of zeros to a topic of lz4",
        build=produce_decompressed,
        prepare=state.prepare_zeros,
    ),
}
"""What an attack of ten clients is called, and what each of them sends again and again."""
