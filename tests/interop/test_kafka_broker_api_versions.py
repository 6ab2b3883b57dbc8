"""kafka-broker-api-versions: the ranges that a broker advertises, which clients choose their versions by."""

import re
from collections.abc import Callable
from typing import Any

# Versions that Kafka 4.3 advertises on a broker's listener, for the APIs that a node without transactions serves.
# Produce starts at 0 although v0-v2 are gone: librdkafka takes a minimum above 0 for "cannot compress" (KAFKA-18659).
ADVERTISED = [
    "",
    "Produce(0): 0 to 13",
    "Fetch(1): 4 to 18",
    "ListOffsets(2): 1 to 11",
    "Metadata(3): 0 to 13",
    "OffsetCommit(8): 2 to 10",
    "OffsetFetch(9): 1 to 10",
    "FindCoordinator(10): 0 to 6",
    "JoinGroup(11): 0 to 9",
    "Heartbeat(12): 0 to 4",
    "LeaveGroup(13): 0 to 5",
    "SyncGroup(14): 0 to 5",
    "DescribeGroups(15): 0 to 6",
    "ListGroups(16): 0 to 5",
    "ApiVersions(18): 0 to 4",
    "CreateTopics(19): 2 to 7",
    "DeleteTopics(20): 1 to 6",
    "DeleteRecords(21): 0 to 2",
    "InitProducerId(22): 0 to 5",
    "OffsetForLeaderEpoch(23): 2 to 4",
    "DescribeConfigs(32): 1 to 4",
    "AlterConfigs(33): 0 to 2",
    "AlterReplicaLogDirs(34): 1 to 2",
    "DescribeLogDirs(35): 1 to 5",
    "CreatePartitions(37): 0 to 3",
    "CreateDelegationToken(38): 1 to 3",
    "RenewDelegationToken(39): 1 to 2",
    "ExpireDelegationToken(40): 1 to 2",
    "DescribeDelegationToken(41): 1 to 3",
    "DeleteGroups(42): 0 to 2",
    "ElectLeaders(43): 0 to 2",
    "IncrementalAlterConfigs(44): 0 to 1",
    "OffsetDelete(47): 0",
    "DescribeQuorum(55): 0 to 2",
    "DescribeCluster(60): 0 to 2",
    "DescribeProducers(61): 0",
    "ListConfigResources(74): 0 to 1",
    "DescribeTopicPartitions(75): 0",
    "",
]


def test_ranges_are_those_of_kafka(kafka: Callable[..., Any], broker: Any) -> None:
    first, *rows, last = kafka("kafka-broker-api-versions").lines

    assert re.fullmatch(rf"{broker.bootstrap} \(id: \d+ rack: null isFenced: false\) -> \(", first)
    assert last == ")"
    ranges = {row.strip().split(" [usable")[0] for row in rows}
    assert set(filter(None, ADVERTISED)) - ranges == set()


def test_no_api_is_advertised_that_kafka_does_not_have(kafka: Callable[..., Any]) -> None:
    assert "UNKNOWN(" not in kafka("kafka-broker-api-versions").stdout
