"""Fetch: whole first batches, limits, waiting, sessions, and errors."""

import pytest

from ottla.errors import ErrorCode
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, fetch_request, produce, records_in
from ottla.simulator.world.single_node import Client, RunningNode
from ottla.types import CLUSTER_METADATA_TOPIC_ID
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

UNKNOWN_ID = bytes(range(16))


@pytest.fixture
def client(running: RunningNode) -> Client:
    client = running.connect()
    create_topic(client, "t", partitions=2)
    return client


@pytest.mark.parametrize("version", [4, 11, 12])
def test_offset_within_a_batch_returns_the_whole_batch(client: Client, version: int) -> None:
    produce(client, "t", batch_of(client, [b"a", b"b", b"c"]))

    data = fetch(client, "t", 1, version=version)

    assert [record.offset for record in records_in(data)] == [0, 1, 2]


def test_records_are_empty_and_not_null_when_there_are_none(client: Client) -> None:
    produce(client, "t", batch_of(client, [b"a"]))

    data = fetch(client, "t", 1)

    assert data.records is not None
    assert len(data.records) == 0
    assert (data.high_watermark, data.log_start_offset, data.error_code) == (1, 0, ErrorCode.NONE)


@pytest.mark.parametrize("offset", [-1, 2], ids=["before-the-start", "beyond-the-end"])
def test_offset_outside_the_log_is_out_of_range(client: Client, offset: int) -> None:
    produce(client, "t", batch_of(client, [b"a"]))

    data = fetch(client, "t", offset)

    assert ErrorCode(data.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert data.high_watermark == -1


def test_first_batch_is_returned_whole_despite_the_limit(client: Client) -> None:
    produce(client, "t", batch_of(client, [b"x" * 1000]))

    response = client.ask(fetch_request("t", 0, size_bytes_max=1), FetchResponse, 12)

    assert [record.value for record in records_in(response.responses[0].partitions[0])] == [b"x" * 1000]


def test_unknown_topic_id_has_its_own_error(client: Client) -> None:
    wanted = FetchPartition(partition=0, partition_max_bytes=100)
    request = FetchRequest(session_epoch=-1, topics=[FetchTopic(topic_id=UNKNOWN_ID, partitions=[wanted])])

    response = client.ask(request, FetchResponse, 13)

    assert ErrorCode(response.responses[0].partitions[0].error_code) is ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        pytest.param(0, ErrorCode.NONE, id="current"),
        pytest.param(1, ErrorCode.UNKNOWN_LEADER_EPOCH, id="newer-than-the-leader"),
        pytest.param(-1, ErrorCode.NONE, id="not-said"),
    ],
)
def test_wrong_leader_epoch_is_rejected(client: Client, epoch: int, code: ErrorCode) -> None:
    request = fetch_request("t", 0)
    request.topics[0].partitions[0].current_leader_epoch = epoch

    response = client.ask(request, FetchResponse, 12)

    assert ErrorCode(response.responses[0].partitions[0].error_code) is code


def test_fetch_waits_for_the_next_record(running: RunningNode, client: Client) -> None:
    reader = running.connect()
    request = fetch_request("t", 0)
    request.max_wait_ms, request.min_bytes = 5_000, 1
    reader.send(request, 12)
    running.run(100)
    assert reader.take_frame() is None

    produce(client, "t", batch_of(client, [b"a"]))

    response = reader.response_to(request, 12)
    assert isinstance(response, FetchResponse)
    assert [record.value for record in records_in(response.responses[0].partitions[0])] == [b"a"]


def test_fetch_completes_after_max_wait(running: RunningNode, client: Client) -> None:
    request = fetch_request("t", 0)
    request.max_wait_ms, request.min_bytes = 500, 1
    client.send(request, 12)

    running.run(490)
    early = client.take_frame()
    running.run(20)

    assert early is None
    assert client.take_frame() is not None


def test_fetch_waits_for_min_bytes(running: RunningNode, client: Client) -> None:
    batch = batch_of(client, [b"a"])
    reader = running.connect()
    request = fetch_request("t", 0)
    request.max_wait_ms, request.min_bytes = 5_000, 2 * len(batch)
    reader.send(request, 12)

    produce(client, "t", batch)
    after_one = reader.take_frame()
    produce(client, "t", batch)

    assert after_one is None
    assert reader.take_frame() is not None


def test_later_requests_of_a_waiting_connection_are_served_in_order(running: RunningNode, client: Client) -> None:
    request = fetch_request("t", 0)
    request.max_wait_ms, request.min_bytes = 300, 1
    client.send_bytes(client.frame(request, 12) + client.frame(fetch_request("t", 0, partition=1), 12))

    running.run(310)
    first, second = client.take_frame(), client.take_frame()

    assert first is not None
    assert second is not None
    assert int.from_bytes(second[:4], "big") == int.from_bytes(first[:4], "big") + 1


def session_request(session_id: int, epoch: int, **partitions: int) -> FetchRequest:
    """A fetch in a session; ``p0=5`` is partition 0 from offset 5."""
    wanted = [
        FetchPartition(partition=int(key[1:]), fetch_offset=offset, partition_max_bytes=1 << 20)
        for key, offset in partitions.items()
    ]
    topics = [FetchTopic(topic="t", partitions=wanted)] if wanted else []
    return FetchRequest(max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=topics)


def test_session_returns_changed_partitions_only(client: Client) -> None:
    full = client.ask(session_request(0, 0, p0=0, p1=0), FetchResponse, 12)
    quiet = client.ask(session_request(full.session_id, 1), FetchResponse, 12)
    produce(client, "t", batch_of(client, [b"a"]), partition=1)
    news = client.ask(session_request(full.session_id, 2), FetchResponse, 12)

    assert full.session_id != 0
    assert [partition.partition_index for partition in full.responses[0].partitions] == [0, 1]
    assert quiet.responses == []
    assert [partition.partition_index for partition in news.responses[0].partitions] == [1]


def test_session_removes_requested_partitions(client: Client) -> None:
    full = client.ask(session_request(0, 0, p0=0, p1=0), FetchResponse, 12)
    request = session_request(full.session_id, 1)
    request.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[1])]
    client.ask(request, FetchResponse, 12)
    produce(client, "t", batch_of(client, [b"a"]), partition=1)

    response = client.ask(session_request(full.session_id, 2), FetchResponse, 12)

    assert response.responses == []


@pytest.mark.parametrize(
    ("shift", "epoch", "code"),
    [
        pytest.param(0, 5, ErrorCode.INVALID_FETCH_SESSION_EPOCH, id="wrong-epoch"),
        pytest.param(1, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, id="unknown-session"),
    ],
)
def test_unknown_session_or_epoch_is_rejected(client: Client, shift: int, epoch: int, code: ErrorCode) -> None:
    full = client.ask(session_request(0, 0, p0=0), FetchResponse, 12)

    response = client.ask(session_request(full.session_id ^ shift, epoch), FetchResponse, 12)

    assert ErrorCode(response.error_code) is code


# --- the metadata log, from a controller's listener; the responses are those of Kafka 4.3.1


def fetch_metadata_log(running: RunningNode, version: int, **wanted: int) -> FetchResponse:
    asked = {"current_leader_epoch": 1, "partition_max_bytes": 0} | wanted
    if version >= 12:
        asked.setdefault("last_fetched_epoch", 0)
    partition = FetchPartition(partition=0, fetch_offset=0, **asked)
    topic = FetchTopic(topic="__cluster_metadata", topic_id=CLUSTER_METADATA_TOPIC_ID, partitions=[partition])
    if version < 9:
        partition.current_leader_epoch = -1
    request = FetchRequest(max_bytes=1 << 20, topics=[topic])
    return running.connect("CONTROLLER").ask(request, FetchResponse, version)


@pytest.mark.parametrize("version", range(4, 13))
def test_quorum_rejects_versions_without_topic_ids(running: RunningNode, version: int) -> None:
    response = fetch_metadata_log(running, version)

    assert response.error_code == (ErrorCode.INVALID_REQUEST if version >= 7 else ErrorCode.NONE)
    assert response.responses == []


@pytest.mark.parametrize("version", range(13, 19))
def test_quorum_returns_its_leader_and_from_v17_on_its_endpoint(running: RunningNode, version: int) -> None:
    response = fetch_metadata_log(running, version)

    (partition,) = response.responses[0].partitions
    assert (partition.error_code, partition.current_leader.leader_id) == (ErrorCode.NONE, 1)
    assert partition.records
    assert len(response.node_endpoints) == (version >= 17)


@pytest.mark.parametrize("version", [13, 16, 17])
@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        pytest.param({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH, id="older-epoch"),
        pytest.param({"current_leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH, id="newer-epoch"),
        pytest.param({"current_leader_epoch": -1}, ErrorCode.INVALID_REQUEST, id="no-epoch"),
        pytest.param({"last_fetched_epoch": 2}, ErrorCode.INVALID_REQUEST, id="read-beyond-the-epoch"),
    ],
)
def test_quorum_rejects_and_returns_its_leader(
    running: RunningNode, version: int, wanted: dict[str, int], error: ErrorCode
) -> None:
    response = fetch_metadata_log(running, version, **wanted)

    (partition,) = response.responses[0].partitions
    assert (partition.error_code, partition.current_leader.leader_id) == (error, 1)
    assert (partition.high_watermark, partition.log_start_offset) == (-1, 0)
    assert len(response.node_endpoints) == (version >= 17)
