"""Requests that name as much as a request may, for `benchmarks.attackers`: each is sent again when it is answered.

They are built when an attack starts, by the codec of the broker that is attacked: its versions have flexible encodings.
"""

import struct
from collections.abc import Callable
from typing import Final

from ottla.wire.codec import Message
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.registry import ApiKey, request_header_version

_TOPIC_RESOURCE: Final = 2


def frame(request: Message, version: int) -> bytes:
    """Return the request as it is sent, with its size and header."""
    key = ApiKey(request.api_key)
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=1, client_id="bench")
    body = header.encode(request_header_version(key, version)) + request.encode(version)
    return struct.pack(">i", len(body)) + body


def describe_configs(topic: str) -> bytes:
    resource = DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
    return frame(DescribeConfigsRequest(resources=[resource] * 20_000, include_documentation=True), 4)


def describe_producers(topic: str) -> bytes:
    return frame(DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0] * 2_000)]), 0)


def describe_groups(_: str) -> bytes:
    return frame(DescribeGroupsRequest(groups=[f"group-{number}" for number in range(90_000)]), 5)


def find_coordinators(_: str) -> bytes:
    return frame(FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{number}" for number in range(90_000)]), 4)


def list_offsets_by_time(topic: str) -> bytes:
    """Ask six partitions for the first record at a moment that none has: each looks at its newest batch."""
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=1) for index in range(6)]
    return frame(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]), 6)


def fetch_unknown(_: str) -> bytes:
    """Fetch 90,000 partitions that there are not, in a new session each time."""
    partitions = [FetchPartition(partition=number, partition_max_bytes=1) for number in range(90_000)]
    topics = [FetchTopic(topic="unknown", partitions=partitions)]
    return frame(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, session_epoch=0, topics=topics), 12)


REQUESTS: Final[dict[str, tuple[str, Callable[[str], bytes]]]] = {
    "describe-configs": ("DescribeConfigs of one topic, 20,000 times in a request", describe_configs),
    "describe-producers": ("DescribeProducers of one partition, 2,000 times in a request", describe_producers),
    "describe-groups": ("DescribeGroups of 90,000 groups", describe_groups),
    "find-coordinators": ("FindCoordinator of 90,000 groups", find_coordinators),
    "list-offsets-by-time": ("ListOffsets by time of 6 partitions", list_offsets_by_time),
    "fetch-unknown": ("Fetch of 90,000 unknown partitions", fetch_unknown),
}
"""What an attack of ten connections is called, and what each of them sends again and again."""
