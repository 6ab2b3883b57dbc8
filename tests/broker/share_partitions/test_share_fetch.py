"""ShareFetch that waits, records that return to the group, and failures of the share coordinator."""

import pytest

from ottla.errors import ErrorCode
from ottla.log.partition_log import AppendOrigin
from ottla.metadata.metadata_version import SHARE_VERSION
from ottla.purgatory.steps import run_to_end
from ottla.share_partitions.share_session_cache import ShareSessionKey
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from ottla.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchResponse
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.wire.records import Record, build_batch
from share_driver import RECORD_TIME_MS, ShareDriver
from share_member_requests import acknowledge, acquired_by, fetch_request, ranges


def test_waiting_fetch_is_completed_by_an_append(driver: ShareDriver) -> None:
    client = driver.connect()
    request = fetch_request(driver, "a")
    client.send(request, 2)
    driver.pause(0.1)
    assert client.response_to(request, 2) is None

    driver.produce("t", "0", "3")
    driver.pause(0.01)

    assert ranges(client.response_to(request, 2)) == [(0, 2, 1)]


@pytest.mark.parametrize(
    ("duration", "first_offset"),
    [
        pytest.param("PT1H", 1, id="between-the-records"),
        pytest.param("PT3H", 0, id="before-them"),
        pytest.param("P1DT2H3M4.5S", 0, id="with-all-parts"),
        pytest.param("PT20M", None, id="after-them"),
        pytest.param("P106751991167300D", 0, id="longest"),
    ],
)
def test_new_group_starts_at_a_duration_before_now(
    driver: ShareDriver, duration: str, first_offset: int | None
) -> None:
    driver.group("g", f"share.auto.offset.reset=by_duration:{duration}")
    now_ms = driver._place.node.clock.wall_ms()
    for minutes in (120, 30):
        driver.append("t", 0, build_batch([Record(0, now_ms - minutes * 60_000, None, b"v")]))

    acquired = acquired_by(driver.connect(), fetch_request(driver, "a", wait_ms=100))

    assert acquired == ([] if first_offset is None else [(first_offset, 1, 1)])


def test_duration_before_now_may_have_a_fraction_of_a_second(driver: ShareDriver) -> None:
    driver.group("g", "share.auto.offset.reset=by_duration:PT0.9S")
    now_ms = driver._place.node.clock.wall_ms()
    driver.append("t", 0, build_batch([Record(0, now_ms - 500, None, b"v")]))

    assert acquired_by(driver.connect(), fetch_request(driver, "a", wait_ms=100)) == [(0, 0, 1)]


def test_records_of_a_closed_connection_go_to_the_next_member(driver: ShareDriver) -> None:
    first, second = driver.connect(), driver.connect()
    driver.produce("t", "0", "3")
    assert acquired_by(first, fetch_request(driver, "a")) == [(0, 2, 1)]
    request = fetch_request(driver, "b")
    second.send(request, 2)
    driver.pause(0.1)

    driver._place.node.closed(first.peer.connection, "closed by the client")
    driver.pause(0.1)

    assert ranges(second.response_to(request, 2)) == [(0, 2, 2)]


def test_timed_out_records_wake_a_waiting_fetch(driver: ShareDriver) -> None:
    first, second = driver.connect(), driver.connect()
    driver.produce("t", "0", "3")
    assert acquired_by(first, fetch_request(driver, "a")) == [(0, 2, 1)]

    assert acquired_by(second, fetch_request(driver, "b")) == [(0, 2, 2)]


def test_records_above_the_byte_rate_are_delivered_and_later_requests_wait(driver: ShareDriver) -> None:
    client = driver.connect()
    limit = AlterClientQuotasRequestEntryData(
        entity=[AlterClientQuotasRequestEntityData(entity_type="client-id", entity_name="test")],
        ops=[OpData(key="consumer_byte_rate", value=1.0)],
    )
    client.ask(AlterClientQuotasRequest(entries=[limit]), AlterClientQuotasResponse, 1)
    driver.pause(0.1)
    driver.produce("t", "0", "3")

    response = client.ask(fetch_request(driver, "a"), ShareFetchResponse, 2)

    assert ranges(response) == [(0, 2, 1)]
    assert response.throttle_time_ms > 0
    assert not client.peer.is_read_from
    driver.pause(response.throttle_time_ms / 1_000 + 0.1)
    assert client.peer.is_read_from


def test_record_is_archived_after_its_last_delivery(driver: ShareDriver) -> None:
    client = driver.connect()
    driver.produce("t", "0", "1")
    assert acquired_by(client, fetch_request(driver, "a")) == [(0, 0, 1)]
    for delivery in range(2, 6):
        assert acknowledge(driver, client, 2 * delivery - 3, 0, 0, 2) == ErrorCode.NONE
        assert acquired_by(client, fetch_request(driver, "a", 2 * delivery - 2)) == [(0, 0, delivery)]

    assert acknowledge(driver, client, 9, 0, 0, 2) == ErrorCode.NONE

    assert driver.persister.records[0] == (4, 5)
    assert acquired_by(client, fetch_request(driver, "a", 10, wait_ms=100)) == []


def test_failed_write_leaves_the_records_with_the_member(driver: ShareDriver) -> None:
    client = driver.connect()
    driver.produce("t", "0", "3")
    acquired_by(client, fetch_request(driver, "a"))
    driver.persister.error = ErrorCode.NOT_COORDINATOR

    assert acknowledge(driver, client, 1, 0, 2, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    driver.persister.error = ErrorCode.NONE
    assert acknowledge(driver, client, 2, 0, 2, 1) == ErrorCode.NONE


def test_fenced_write_drops_the_share_partition(driver: ShareDriver) -> None:
    client = driver.connect()
    driver.produce("t", "0", "3")
    acquired_by(client, fetch_request(driver, "a"))
    driver.persister.error = ErrorCode.FENCED_STATE_EPOCH

    assert acknowledge(driver, client, 1, 0, 2, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    assert len(driver.manager) == 0
    driver.persister.error = ErrorCode.NONE
    assert acquired_by(client, fetch_request(driver, "a", 2)) == [(0, 2, 1)]


def test_start_offset_that_is_reset_without_members_is_where_the_next_member_starts(driver: ShareDriver) -> None:
    driver.produce("t", "0", "4")
    client = driver.connect()
    acquired_by(client, fetch_request(driver, "a"))
    assert acknowledge(driver, client, 1, 0, 1, 1) is ErrorCode.NONE
    client.ask(fetch_request(driver, "a", epoch=-1), ShareFetchResponse, 2)
    assert len(driver.manager) == 0

    driver.persister.start_offset, driver.persister.records = 0, {}

    assert acquired_by(driver.connect(), fetch_request(driver, "b")) == [(0, 3, 1)]


def test_share_partition_is_kept_while_another_member_has_a_session(driver: ShareDriver) -> None:
    driver.produce("t", "0", "1")
    first, second = driver.connect(), driver.connect()
    acquired_by(first, fetch_request(driver, "a"))
    acquired_by(second, fetch_request(driver, "b", wait_ms=0))

    first.ask(fetch_request(driver, "a", epoch=-1), ShareFetchResponse, 2)
    assert len(driver.manager) == 1

    second.ask(fetch_request(driver, "b", epoch=-1), ShareFetchResponse, 2)
    assert len(driver.manager) == 0


@pytest.mark.parametrize(
    ("member_id", "error"),
    [
        pytest.param("", ErrorCode.INVALID_REQUEST, id="empty"),
        pytest.param("x" * 36, ErrorCode.NONE, id="36-characters"),
        pytest.param("x" * 37, ErrorCode.INVALID_REQUEST, id="37-characters"),
        pytest.param("🦫" * 18, ErrorCode.NONE, id="18-characters-that-take-two-of-java-each"),
        pytest.param("🦫" * 19, ErrorCode.INVALID_REQUEST, id="19-characters-that-take-two-of-java-each"),
    ],
)
def test_member_id_has_up_to_36_characters_of_java(driver: ShareDriver, member_id: str, error: ErrorCode) -> None:
    response = driver.connect().ask(fetch_request(driver, member_id, wait_ms=0), ShareFetchResponse, 2)

    assert response.error_code == error


def test_without_share_version_requests_are_rejected(driver: ShareDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(driver._place.node.metadata.image.features.levels, SHARE_VERSION)

    response = driver.connect().ask(fetch_request(driver, "a"), ShareFetchResponse, 2)

    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_session_above_the_limit_is_rejected_after_the_wait(driver: ShareDriver) -> None:
    driver.manager.settings._config().share_sessions_max = 0

    response = driver.connect().ask(fetch_request(driver, "a", wait_ms=500), ShareFetchResponse, 2)

    assert response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_records_of_aborted_transactions_are_archived_with_read_committed(driver: ShareDriver) -> None:
    driver.group_configs["g"]["share.isolation.level"] = "read_committed"
    client = driver.connect()
    partition = driver._place.node.replicas.get("t", 0)
    records = [Record(index, RECORD_TIME_MS, None, b"v") for index in range(2)]
    batch = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    driver._place.node.replicas.append(partition, bytearray(batch), origin=AppendOrigin.CLIENT, required_acks=-1)
    driver.produce("t", "0", "1")
    marker = WritableTxnMarker(
        producer_id=7, producer_epoch=0, topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
    )
    assert acquired_by(client, fetch_request(driver, "a", wait_ms=100)) == []

    driver.send(WriteTxnMarkersRequest(markers=[marker]), 1)

    assert acquired_by(client, fetch_request(driver, "a", 1)) == [(2, 3, 1)]


def test_new_leader_epoch_of_many_partitions_drops_all_share_partitions(driver: ShareDriver) -> None:
    driver.topics("many=150")
    request = fetch_request(driver, "a", epoch=1)
    request.share_session_epoch = 0
    request.topics = [
        FetchTopic(
            topic_id=driver.names.topic_ids["many"],
            partitions=[FetchPartition(partition_index=index) for index in range(150)],
        )
    ]
    for number in range(3):
        client, request.member_id = driver.connect(), f"m{number}"
        # Each session waits for other partitions first.
        request.topics[0].partitions = request.topics[0].partitions[50:] + request.topics[0].partitions[:50]
        client.send(request, 2)
        driver.pause(0.1)
    partition = driver._place.node.replicas.get("many", 51)
    for index in range(150):
        driver._place.node.replicas.get("many", index).leader_epoch += 1

    driver._place.node.replicas.fetch_purgatory.check(partition.topic_partition)
    driver.pause(1)

    assert len(driver.manager) == 0


def test_deferred_release_keeps_the_records_of_a_member_that_has_returned(driver: ShareDriver) -> None:
    first, again = driver.connect(), driver.connect()
    driver.produce("t", "0", "3")
    assert acquired_by(first, fetch_request(driver, "a")) == [(0, 2, 1)]
    session = driver.manager.sessions.require(ShareSessionKey("g", "a"))
    driver.manager.sessions.close(session.key)
    release = driver.manager.release(session)
    driver.produce("t", "0", "2")
    assert acquired_by(again, fetch_request(driver, "a")) == [(3, 4, 1)]

    run_to_end(release)

    assert acquired_by(driver.connect(), fetch_request(driver, "b")) == [(0, 2, 2)]


def test_release_goes_on_when_the_client_is_gone(driver: ShareDriver) -> None:
    client = driver.connect()
    driver.produce("t", "0", "3")
    assert acquired_by(client, fetch_request(driver, "a")) == [(0, 2, 1)]
    session = driver.manager.sessions.require(ShareSessionKey("g", "a"))
    driver.manager.sessions.close(session.key)
    release = driver.manager.release(session)
    next(release)

    release.close()
    driver.pause(0.1)

    assert len(driver.manager) == 0


def test_full_response_has_the_errors_of_its_other_partitions(driver: ShareDriver) -> None:
    driver.produce("t", "0", "3")
    request = fetch_request(driver, "a")
    request.max_records = 1
    request.batch_size = 1
    request.topics[0].partitions.append(FetchPartition(partition_index=9))

    (topic,) = driver.connect().ask(request, ShareFetchResponse, 2).responses

    assert len(topic.partitions[0].acquired_records) == 1
    assert [each.error_code for each in topic.partitions] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
