"""ShareFetches that wait: which of them are woken, what they read, and what happens between two slices."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.purgatory.steps import Steps
from ottla.replication.partition import Partition
from ottla.share_partitions import share_session_cache
from ottla.share_partitions.share_fetch_round import ShareFetchRound
from ottla.share_state.persister import ReadState
from ottla.simulator.world.single_node import Client
from ottla.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from share_driver import ShareDriver, leave_out_fields


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> ShareDriver:
    leave_out_fields(monkeypatch)
    driver = ShareDriver()
    driver.topics("t=64")
    driver.group("g", "share.auto.offset.reset=earliest")
    return driver


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Partitions that were read."""
    found: list[int] = []
    read_for_consumer = Partition.read_for_consumer

    def read(self: Partition, *args: Any, **options: Any) -> Any:
        found.append(self.topic_partition.partition)
        return read_for_consumer(self, *args, **options)

    monkeypatch.setattr(Partition, "read_for_consumer", read)
    return found


def share_fetch(member_id: str, driver: ShareDriver, partitions: int, min_bytes: int = 1) -> ShareFetchRequest:
    listed = [FetchPartition(partition_index=index) for index in range(partitions)]
    return ShareFetchRequest(
        group_id="g",
        member_id=member_id,
        share_session_epoch=0,
        max_wait_ms=60_000,
        min_bytes=min_bytes,
        max_bytes=1_000_000,
        max_records=100,
        batch_size=100,
        topics=[FetchTopic(topic_id=driver.names.topic_ids["t"], partitions=listed)],
    )


def wait_for(driver: ShareDriver, member_id: str, partitions: int, min_bytes: int = 1) -> tuple[Client, Any]:
    client, request = driver.connect(), share_fetch(member_id, driver, partitions, min_bytes)
    client.send(request, 2)
    driver.pause(0.1)
    assert client.response_to(request, 2) is None
    return client, request


def acquired(client: Client, request: ShareFetchRequest) -> list[tuple[int, int, int]]:
    response = client.response_to(request, 2)
    return [
        (partition.partition_index, each.first_offset, each.last_offset)
        for topic in ([] if response is None else response.responses)
        for partition in topic.partitions
        for each in partition.acquired_records
    ]


def test_append_wakes_one_member_at_a_time(driver: ShareDriver, reads: list[int]) -> None:
    waiting = [wait_for(driver, f"m{number}", 1) for number in range(10)]
    reads.clear()

    driver.produce("t", "0", "1")
    driver.pause(0.1)

    assert [acquired(*each) for each in waiting] == [[(0, 0, 0)], *[[]] * 9]
    assert len(reads) == 1


def test_records_that_a_woken_member_leaves_wake_the_next(driver: ShareDriver) -> None:
    waiting = [wait_for(driver, f"m{number}", 1) for number in range(3)]

    for _ in range(2):
        driver.produce("t", "0", "100")
    driver.pause(0.1)

    assert [acquired(*each) for each in waiting] == [[(0, 0, 99)], [(0, 100, 199)], []]


def test_append_wakes_only_its_partition(driver: ShareDriver, reads: list[int]) -> None:
    client, request = wait_for(driver, "a", 64)
    reads.clear()

    driver.produce("t", "7", "1")
    driver.pause(0.1)

    assert acquired(client, request) == [(7, 0, 0)]
    assert reads == [7]


def test_member_that_needs_more_bytes_is_not_tried_again_without_a_change(
    driver: ShareDriver, reads: list[int]
) -> None:
    waiting = [wait_for(driver, f"m{number}", 1, min_bytes=100_000) for number in range(2)]
    reads.clear()

    driver.produce("t", "0", "1")
    driver.pause(1)
    assert len(reads) == 2
    driver.pause(60)

    assert sorted(acquired(*each) for each in waiting) == [[], [(0, 0, 0)]]


def test_min_bytes_counts_all_partitions(driver: ShareDriver) -> None:
    client, request = wait_for(driver, "a", 64, min_bytes=100)
    driver.produce("t", "1", "1")
    driver.pause(0.1)
    assert acquired(client, request) == []

    driver.produce("t", "60", "1")
    driver.pause(0.1)

    assert acquired(client, request) == [(1, 0, 0), (60, 0, 0)]


def test_append_between_the_slices_of_a_fetch_is_not_missed(
    driver: ShareDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = ShareFetchRound._watch

    def append_and_watch(self: ShareFetchRound, wanted: list[Any]) -> Steps[None]:
        driver.produce("t", "0", "1")
        yield from watch(self, wanted)

    monkeypatch.setattr(ShareFetchRound, "_watch", append_and_watch)
    client = driver.connect()
    request = share_fetch("a", driver, 1)
    client.send(request, 2)
    driver.pause(0.1)

    assert acquired(client, request) == [(0, 0, 0)]


def test_waiting_fetch_of_a_closed_connection_leaves_nothing(driver: ShareDriver) -> None:
    client, _ = wait_for(driver, "a", 64)
    assert len(driver._place.node.replicas.fetch_purgatory) > 0

    driver._place.node.closed(client.peer.connection, "closed by the client")
    driver.pause(0.1)

    assert len(driver._place.node.replicas.fetch_purgatory) == 0


def test_expiry_is_queued_once_for_a_share_partition(driver: ShareDriver) -> None:
    driver.produce("t", "0", "1")
    client, request = wait_for(driver, "a", 1, min_bytes=100_000)
    driver.pause(61)
    assert acquired(client, request) == [(0, 0, 0)]
    manager, now_ms = driver.manager, driver._place.node.clock.monotonic_ms() + 60_000

    for _ in range(3):
        for key in list(manager._share_partitions):
            manager._check(key, now_ms)

    assert len(manager._releases) == 1


@pytest.mark.parametrize("is_held", [False, True])
def test_failure_to_read_the_state_is_reported(driver: ShareDriver, is_held: bool) -> None:
    driver.persister.is_held = is_held
    driver.persister.read_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    client = driver.connect()
    request = share_fetch("a", driver, 1)
    client.send(request, 2)
    driver.pause(0.1)
    if is_held:
        assert client.response_to(request, 2) is None
        driver.persister.reads[0].complete(ReadState(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        driver.pause(0.2)

    response: Any = client.response_to(request, 2)

    assert response.responses[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_all_members_that_wait_for_a_dropped_share_partition_are_notified(driver: ShareDriver) -> None:
    waiting = [wait_for(driver, f"m{number}", 1) for number in range(40)]
    driver._place.node.replicas.get("t", 0).leader_epoch += 1

    driver.pause(0.5)

    for client, request in waiting:
        response: Any = client.response_to(request, 2)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_partitions_of_sessions_are_limited(driver: ShareDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_session_cache, "_PARTITIONS_MAX", 20)
    monkeypatch.setattr(share_session_cache, "_ALL_PARTITIONS_MAX", 30)
    wait_for(driver, "a", 20)

    for partitions in (21, 11):
        request = share_fetch("b", driver, partitions)
        request.max_wait_ms = 0
        response = driver.connect().ask(request, ShareFetchResponse, 2)
        assert response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert len(driver.manager.sessions) == 1

    wait_for(driver, "b", 10)
    for _ in range(2):
        wait_for(driver, "a", 20)
    assert driver.manager.sessions.partition_count == 30
