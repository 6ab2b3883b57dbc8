"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments at their edges, with Kafka's messages.

Three responses differ from Kafka's on purpose: a request whose timeout is over before it started is carried out (Kafka:
REQUEST_TIMED_OUT), an unknown kind of election is rejected also for an empty list, and NO_REASSIGNMENT_IN_PROGRESS has
a message (Kafka: only the code). Cases that need several brokers are in the controller's scenario ``one_broker_away``.
"""

import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.wire.codec import Message
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.wire.messages.registry import ApiKey, request_header_version, response_header_version, response_type

PREFERRED, UNCLEAN = 0, 1
TIMEOUT_S = 20
OK = (ErrorCode.NONE, None)
NOT_NEEDED = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
NOT_MOVING = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)

Said = tuple[ErrorCode, str | None]


def unknown(text: str) -> Said:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text


def no_assignment(text: str) -> Said:
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {text}"


@pytest.fixture
def ask(broker: Any) -> Callable[[Message, int], Any]:
    """Return a function that sends one request over a connection of its own, and returns the response."""

    def send(request: Message, version: int) -> Any:
        key = ApiKey(request.api_key)
        header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=7, client_id="edge")
        frame = header.encode(request_header_version(key, version)) + request.encode(version)
        with socket.create_connection(broker.address, timeout=TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            with connection.makefile("rb") as stream:
                response = stream.read(struct.unpack(">i", stream.read(4))[0])
        return response_type(key).decode(memoryview(response), version, 4 + response_header_version(key, version))

    return send


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=2)


def elections(response: Any) -> list[tuple[str, list[tuple[int, Said]]]]:
    return [
        (each.topic, [(found.partition_id, (found.error_code, found.error_message)) for found in each.partition_result])
        for each in response.replica_election_results
    ]


@pytest.mark.parametrize(
    ("kind", "version"), [(PREFERRED, 0), (PREFERRED, 1), (PREFERRED, 2), (UNCLEAN, 1), (UNCLEAN, 2)]
)
def test_impossible_election_is_rejected_with_its_reason(
    ask: Callable[[Message, int], Any], topic: str, kind: int, version: int
) -> None:
    asked = [("nope", [1]), ("", [0]), (topic, []), (topic, [1, 2, -1, 0, 0]), (topic, [1]), ("nope", [])]
    places = [TopicPartitions(topic=name, partitions=partitions) for name, partitions in asked]

    response = ask(ElectLeadersRequest(election_type=kind, topic_partitions=places), version)

    assert response.error_code == ErrorCode.NONE
    assert elections(response) == [
        ("nope", [(1, unknown("No such topic as nope"))]),
        ("", [(0, unknown("No such topic as "))]),
        (topic, []),
        (
            topic,
            [
                (1, NOT_NEEDED),
                (2, unknown(f"No such partition as {topic}-2")),
                (-1, unknown(f"No such partition as {topic}--1")),
                (0, NOT_NEEDED),
                (0, NOT_NEEDED),
            ],
        ),
        (topic, [(1, NOT_NEEDED)]),
        ("nope", []),
    ]


def test_election_of_all_topics_lists_only_partitions_that_need_one(
    ask: Callable[[Message, int], Any], topic: str
) -> None:
    everywhere = elections(ask(ElectLeadersRequest(topic_partitions=None), 2))

    assert (topic, []) in everywhere
    assert elections(ask(ElectLeadersRequest(topic_partitions=[]), 2)) == []


@pytest.mark.parametrize("kind", [2, -1])
def test_unknown_kind_of_election_is_rejected_as_a_whole_and_for_each(
    ask: Callable[[Message, int], Any], topic: str, kind: int
) -> None:
    place = TopicPartitions(topic=topic, partitions=[0])

    response = ask(ElectLeadersRequest(election_type=kind, topic_partitions=[place]), 2)

    rejected = (ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
    assert (response.error_code, elections(response)) == (ErrorCode.INVALID_REQUEST, [(topic, [(0, rejected)])])


@pytest.mark.parametrize(
    ("partition", "replicas", "said"),
    [
        pytest.param(0, "own", OK, id="as-it-is"),
        pytest.param(0, None, NOT_MOVING, id="nothing-to-cancel"),
        pytest.param(0, [], no_assignment("an empty replica list."), id="empty"),
        pytest.param(0, "twice", no_assignment("the broker {0} more than once."), id="twice"),
        pytest.param(0, [998], no_assignment("broker 998, but no such broker is registered."), id="unknown"),
        pytest.param(0, [-1], no_assignment("broker -1, but no such broker is registered."), id="negative"),
        pytest.param(0, [999, 998], no_assignment("broker 998, but no such broker is registered."), id="lowest-first"),
        pytest.param(0, [998, 998], no_assignment("broker 998, but no such broker is registered."), id="unknown-twice"),
        pytest.param(2, "own", unknown("Unable to find partition {1}:2."), id="out-of-range"),
        pytest.param(-1, None, unknown("Unable to find partition {1}:-1."), id="negative-partition"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"allow_replication_factor_change": False}], ids=["any-count", "same-count"])
def test_impossible_reassignment_is_rejected_with_its_reason(
    ask: Callable[[Message, int], Any],
    admin: Any,
    topic: str,
    partition: int,
    replicas: Any,
    said: Said,
    options: dict[str, bool],
) -> None:
    own = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions[0].leader
    wanted = {"own": [own], "twice": [own, own]}.get(replicas, replicas) if isinstance(replicas, str) else replicas
    places = [
        ReassignableTopic(name="nope", partitions=[ReassignablePartition(partition_index=0, replicas=wanted)]),
        ReassignableTopic(name=topic, partitions=[]),
        ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=partition, replicas=wanted)]),
    ]

    response = ask(AlterPartitionReassignmentsRequest(topics=places, **options), 1 if options else 0)

    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    nowhere, nothing, here = response.responses
    (rejected,) = nowhere.partitions
    assert (rejected.error_code, rejected.error_message) == unknown("Unable to find a topic named nope.")
    assert (nothing.name, nothing.partitions) == (topic, [])
    (found,) = here.partitions
    code, text = said
    assert (found.partition_index, found.error_code) == (partition, code)
    if said != NOT_MOVING:
        assert found.error_message == (text and text.format(own, topic))


def test_idle_partitions_are_not_listed(ask: Callable[[Message, int], Any], topic: str) -> None:
    named = [("nope", [0]), (topic, [0, 9]), (topic, [])]
    places = [ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name, indexes in named]

    for topics in (None, [], places):
        response = ask(ListPartitionReassignmentsRequest(topics=topics), 0)

        assert (response.error_code, response.error_message, response.topics) == (ErrorCode.NONE, None, [])
