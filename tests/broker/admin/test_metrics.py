"""The metrics page: Kafka's names, the node's numbers, and slices that never block the loop for long."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.admin.snapshot import PARTITIONS_PER_SLICE, NodeSnapshot, take_snapshot
from ottla.coordinator.context import ContextState
from ottla.groups.metrics import GroupCounts
from ottla.simulator.world.single_node import RunningNode
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records import Record, build_batch

Figures = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def figures_of(page: str) -> Figures:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def create_topic(running: RunningNode, name: str, partitions: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response = running.connect().ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 7)
    assert [result.error_code for result in response.topics] == [0]
    running.run_until(lambda: len(running.node.replicas) >= partitions)


def delete_topic(running: RunningNode, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)
    response = running.connect().ask(request, DeleteTopicsResponse, 6)
    assert [result.error_code for result in response.responses] == [0]
    running.run_until(lambda: all(partition.topic_partition.topic != name for partition in running.node.replicas))


def produce(running: RunningNode, topic: str, partition: int, records: int) -> int:
    """Produce; return the bytes of the batch."""
    batch = build_batch([Record(offset, 1_700_000_000_000, b"k", b"v") for offset in range(records)])
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    response = running.connect().ask(request, ProduceResponse, 9)
    assert response.responses[0].partition_responses[0].error_code == 0
    return len(batch)


@pytest.fixture
def page(running: RunningNode, new_admin: Any, get: Any) -> Callable[[], Figures]:
    server = new_admin()

    def page() -> Figures:
        status, content_type, body = get(server, "/metrics")
        assert status == 200
        assert content_type.startswith("text/plain; version=")
        return figures_of(body)

    return page


def test_produced_bytes_are_counted_per_topic_and_in_total(running: RunningNode, page: Callable[[], Figures]) -> None:
    create_topic(running, "flights", 2)
    size_bytes = produce(running, "flights", 1, records=3)

    figures = page()

    topic = (("topic", "flights"),)
    assert figures["kafka_server_brokertopicmetrics_messagesin_total", topic] == 3
    assert figures["kafka_server_brokertopicmetrics_messagesin_total", ()] == 3
    assert figures["kafka_server_brokertopicmetrics_bytesin_total", topic] == size_bytes
    assert figures["kafka_server_brokertopicmetrics_totalproducerequests_total", topic] == 1
    assert figures["kafka_server_brokertopicmetrics_bytesout_total", topic] == 0
    place = (("partition", "1"), ("topic", "flights"))
    assert figures["kafka_log_log_logendoffset", place] == 3
    assert figures["kafka_log_log_logstartoffset", place] == 0
    assert figures["kafka_log_log_numlogsegments", place] == 1
    assert figures["kafka_log_log_size", place] == size_bytes


def test_partitions_are_counted_by_broker_and_by_controller(running: RunningNode, page: Callable[[], Figures]) -> None:
    create_topic(running, "flights", 6)

    figures = page()

    expected = {
        "kafka_server_replicamanager_partitioncount": 6,
        "kafka_server_replicamanager_leadercount": 6,
        "kafka_server_replicamanager_underreplicatedpartitions": 0,
        "kafka_server_replicamanager_underminisrpartitioncount": 0,
        "kafka_server_replicamanager_atminisrpartitioncount": 6,
        "kafka_server_replicamanager_offlinereplicacount": 0,
        "kafka_controller_kafkacontroller_activecontrollercount": 1,
        "kafka_controller_kafkacontroller_activebrokercount": 1,
        "kafka_controller_kafkacontroller_fencedbrokercount": 0,
        "kafka_controller_kafkacontroller_globaltopiccount": 1,
        "kafka_controller_kafkacontroller_globalpartitioncount": 6,
        "kafka_controller_kafkacontroller_offlinepartitionscount": 0,
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount": 0,
        "kafka_log_logmanager_offlinelogdirectorycount": 0,
        "kafka_server_kafkaserver_brokerstate": 3,
        "kafka_server_raftmetrics_current_leader": 1,
        "kafka_server_raftmetrics_number_of_voters": 1,
        "kafka_coordinator_group_groupmetadatamanager_numgroups": 0,
    }
    assert {name: figures[name, ()] for name in expected} == expected
    assert figures["kafka_server_raftmetrics_current_state", (("current_state", "leader"),)] == 1


def test_requests_are_counted_by_api_and_version(running: RunningNode, page: Callable[[], Figures]) -> None:
    client = running.connect()
    for version in (3, 4, 4):
        client.ask(
            ApiVersionsRequest(client_software_name="a", client_software_version="1"), ApiVersionsResponse, version
        )

    figures = page()

    requests = "kafka_network_requestmetrics_requests_total"
    assert figures[requests, (("request", "ApiVersions"), ("version", "3"))] == 1
    assert figures[requests, (("request", "ApiVersions"), ("version", "4"))] == 2
    assert figures["kafka_network_requestmetrics_totaltimems_count", (("request", "ApiVersions"),)] == 3


def test_connections_are_counted_by_listener_while_they_are_open(
    running: RunningNode, page: Callable[[], Figures]
) -> None:
    client = running.connect()
    running.connect("CONTROLLER")
    count = "kafka_server_socket_server_metrics_connection_count"
    plaintext, controller = ((("listener", name), ("networkProcessor", "0")) for name in ("PLAINTEXT", "CONTROLLER"))

    figures = page()
    assert (figures[count, plaintext], figures[count, controller]) == (1, 1)
    client.send_bytes(b"GET / HTTP/1.1\r\n\r\n")

    figures = page()
    assert (figures[count, plaintext], figures[count, controller]) == (0, 1)
    assert figures["kafka_server_socket_server_metrics_connection_creation_total", ()] == 2
    assert figures["ottla_connections_closed_for_errors_total", ()] == 1


def test_request_memory_is_on_the_page(running: RunningNode, page: Callable[[], Figures]) -> None:
    for _ in range(3):
        running.connect().send_bytes((60 << 20).to_bytes(4, "big") + b"begun")

    figures = page()

    assert figures["kafka_network_socketserver_memorypoolused", ()] == (120 << 20) + 9, (
        "two, and the bytes of the third"
    )
    assert figures["kafka_network_socketserver_memorypoolavailable", ()] == (136 << 20) - 9
    assert figures["ottla_connections_waiting_for_memory", ()] == 1
    assert figures["ottla_waits_for_memory_total", ()] == 1
    assert figures["ottla_connections_closed_for_slow_requests_total", ()] == 0
    running.run(11_000)
    assert page()["ottla_connections_closed_for_slow_requests_total", ()] > 0


def test_process_metrics_are_on_the_page(page: Callable[[], Figures]) -> None:
    figures = page()

    assert figures["process_resident_memory_bytes", ()] > 0
    assert figures["process_open_fds", ()] > 0
    assert figures["ottla_loop_delay_seconds", ()] >= 0


def test_open_metrics_is_served_if_the_client_accepts_it(new_admin: Any, get: Any) -> None:
    status, content_type, body = get(new_admin(), "/metrics", Accept="application/openmetrics-text; version=1.0.0")

    assert status == 200
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_slice_of_a_snapshot_copies_a_bounded_number_of_partitions(running: RunningNode) -> None:
    create_topic(running, "wide", 2 * PARTITIONS_PER_SLICE + 1)
    taken: list[NodeSnapshot] = []

    slices = sum(1 for _ in take_snapshot(running.node, taken))

    assert slices == 4
    assert len(taken[0].partitions) == 2 * PARTITIONS_PER_SLICE + 1


def commit_offset(running: RunningNode, group_id: str, topic: str) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = OffsetCommitRequest(
        group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    response = running.connect().ask(request, OffsetCommitResponse, 8)
    assert response.topics[0].partitions[0].error_code == 0


@pytest.fixture
def many_groups(running: RunningNode) -> int:
    """Commit offsets of groups without members; return how many there are."""
    create_topic(running, "flights", 1)
    running.connect().ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, 4)
    running.run_until(lambda: running.node.groups.count_partitions()[ContextState.ACTIVE] == 3)
    for number in range(20):
        commit_offset(running, f"g{number}", "flights")
    return 20


def test_groups_and_the_partitions_of_their_coordinator_are_counted(
    many_groups: int, page: Callable[[], Figures]
) -> None:
    figures = page()

    coordinator = "kafka_server_group_coordinator_metrics"
    assert figures[f"{coordinator}_group_count", (("protocol", "classic"),)] == many_groups
    assert figures[f"{coordinator}_group_count", (("protocol", "consumer"),)] == 0
    states = ("loading", "active", "failed")
    assert [figures[f"{coordinator}_num_partitions", (("state", state),)] for state in states] == [0, 3, 0]


def test_slice_of_a_snapshot_counts_a_bounded_number_of_groups(
    running: RunningNode, many_groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.groups.administration.COUNTED_PER_SLICE", 3)
    counts: GroupCounts = Counter()

    totals = [counts.total() for _ in running.node.groups.count_groups(counts)]

    assert totals[-1] == many_groups
    assert max(later - earlier for earlier, later in pairwise([0, *totals])) == 3


def test_topic_deleted_during_a_snapshot_is_no_error(running: RunningNode) -> None:
    create_topic(running, "wide", PARTITIONS_PER_SLICE + 1)
    taken: list[NodeSnapshot] = []
    slices = take_snapshot(running.node, taken)
    next(slices)
    delete_topic(running, "wide")

    for _ in slices:
        pass

    assert len(taken[0].partitions) <= PARTITIONS_PER_SLICE + 1


def test_socket_counters_are_on_the_page(running: RunningNode, page: Callable[[], Figures]) -> None:
    network = running.node.network_metrics
    network.unread_bytes = 5
    network.closed_unread["memory"] += 2
    network.accept_pauses["PLAINTEXT"] += 3

    figures = page()

    assert figures["ottla_unread_answer_bytes", ()] == 5
    assert figures["ottla_connections_closed_unread_total", (("reason", "memory"),)] == 2
    assert figures["ottla_connections_closed_unread_total", (("reason", "idle"),)] == 0
    assert figures["ottla_listener_pauses_total", (("listener", "PLAINTEXT"),)] == 3


def test_tls_handshakes_are_counted_by_listener(running: RunningNode, page: Callable[[], Figures]) -> None:
    tls = running.node.tls_metrics
    tls.handshakes["SSL"] += 3
    tls.failed_handshakes["SSL"] += 2
    tls.open_handshakes, tls.reloads, tls.failed_reloads = 4, 5, 6
    tls.certificates_expire_at_ms["SSL"] = running.node.clock.wall_ms() + 7_000_000

    figures = page()

    listener = (("listener", "SSL"),)
    assert figures["ottla_tls_handshakes_total", listener] == 3
    assert figures["ottla_tls_handshakes_failed_total", listener] == 2
    assert figures["ottla_tls_handshakes_open", ()] == 4
    assert figures["ottla_tls_reloads_total", ()] == 5
    assert figures["ottla_tls_failed_reloads_total", ()] == 6
    assert 6_900 < figures["ottla_tls_certificate_ends_in_seconds", listener] <= 7_000


def test_authentications_are_counted_by_listener_and_mechanism(
    running: RunningNode, page: Callable[[], Figures]
) -> None:
    authentication = running.node.connections.authentication
    counters = authentication.count("CLIENTS", "PLAIN")
    counters.successes, counters.failures, counters.renewals = 3, 2, 1
    authentication.timed_out, authentication.expired_sessions = 4, 5

    figures = page()

    place = (("listener", "CLIENTS"), ("mechanism", "PLAIN"))
    server = "kafka_server_socket_server_metrics"
    assert figures[f"{server}_successful_authentication_total", place] == 3
    assert figures[f"{server}_failed_authentication_total", place] == 2
    assert figures[f"{server}_successful_reauthentication_total", place] == 1
    assert figures[f"{server}_expired_connections_killed_total", ()] == 5
    assert figures["ottla_sasl_logins_timed_out_total", ()] == 4
    assert figures["ottla_sasl_logins_open", ()] == 0


def test_throttled_clients_are_counted_by_quota(running: RunningNode, page: Callable[[], Figures]) -> None:
    running.node.services.quotas.throttles.record("producer_byte_rate", 1_500, "client 'c'")

    figures = page()

    quota = (("quota", "producer_byte_rate"),)
    assert figures["ottla_throttles_total", quota] == 1
    assert figures["ottla_throttle_seconds_total", quota] == 1.5
    assert figures["ottla_throttles_total", (("quota", "connection_creation_rate"),)] == 0
    assert figures["ottla_connections_muted", ()] == 0
    assert figures["ottla_quota_measurements", quota] == 0
