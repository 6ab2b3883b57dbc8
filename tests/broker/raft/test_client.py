"""One replica: it elects itself, commits what is on the disk, and survives restarts, crashes and snapshots."""

import errno
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.errors import ErrorCode, KafkaError, ShortageError, StorageError
from ottla.raft import commit_feed
from ottla.raft.config import RaftConfig
from ottla.raft.control_batch import read_control_batch
from ottla.raft.voter_set import Voter, VoterSet
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import OffsetAndEpoch, Uuid
from ottla.wire.messages.control_records import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from ottla.wire.records import iterate_batches

LOG = "/d/__cluster_metadata-0"


def control_records(replica: Any) -> list[type]:
    data = replica.read(f"{LOG}/{0:020d}.log")
    return [
        type(message) for batch in iterate_batches(data) if batch.is_control for _, message in read_control_batch(batch)
    ]


def test_first_leader_appends_the_voters_to_the_log(replica: Any) -> None:
    assert replica.listener.leaders == [(1, 1)]
    assert replica.client.is_leader
    assert control_records(replica) == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]


def test_later_leaders_write_only_a_leader_change(replica: Any) -> None:
    replica.client.close()
    replica.disk.kill()
    replica.start()

    assert replica.listener.leaders == [(1, 2)]
    assert control_records(replica)[3:] == [LeaderChangeMessage]


def test_first_batch_has_the_bytes_that_kafka_writes(replica: Any) -> None:
    data = replica.read(f"{LOG}/{0:020d}.log")

    # Offset, length, epoch, magic; behind the CRC: control bit, three records.
    assert data[:17].hex() == "0000000000000000" + "000000a2" + "00000001" + "02"
    assert data[21:27].hex() == "0020" + "00000002"
    # Key of type 2 and LeaderChange version 0: leader 1, voter 1, granted by 1.
    assert "00000002" + "26" + "0000000000010200000001000200000001" in data.hex()


def test_static_voters_are_not_written_into_the_log(new_replica: Callable[..., Any]) -> None:
    replica = new_replica(dynamic=False)

    assert control_records(replica) == [LeaderChangeMessage]
    assert replica.client.kraft_version == 0


def test_start_notifies_listeners_of_a_long_log_in_portions(replica: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        replica.append(b"%d" % number, b"x" * 30)
    replica.commit()
    before = replica.listener.records
    replica.client.close()
    replica.disk.kill()
    monkeypatch.setattr(commit_feed, "NOTIFIED_BYTES_MAX", 300)
    notified: list[int] = []
    replica.start(initialize=False)
    deliver = replica.listener.on_committed
    replica.listener.on_committed = lambda batches: (
        notified.append(sum(each.size_bytes for each in batches)),
        deliver(batches),
    )
    replica.client.initialize()
    replica.commit()

    assert replica.listener.records == before
    assert len(notified) > 3
    assert max(notified) < 300 + 300, "as many as reach the bound, and no more"
    assert replica.client.committed_size_bytes == sum(notified)


def test_records_that_are_committed_at_once_are_notified_in_slices(
    replica: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_feed, "SLICE_BYTES_MAX", 1)
    replica.commit()
    first = len(replica.listener.records)
    for number in range(9):
        replica.append(b"%d" % number, b"x" * 30)

    replica.commit()
    seen = [len(replica.listener.records) - first]
    while replica.client.next_deadline_ms() <= replica.clock.monotonic_ms():
        replica.client.tick(replica.clock.monotonic_ms())
        seen.append(len(replica.listener.records) - first)

    assert seen[-1] == 18
    assert all(now - before <= 2 for before, now in pairwise(seen)), "a tick has one batch"
    assert [each for _, each in replica.listener.records[first::2]] == [b"%d" % number for number in range(9)]


@pytest.mark.parametrize(
    ("dynamic", "text"),
    [
        pytest.param(
            True,
            '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
            id="voters-in-the-log",
        ),
        pytest.param(
            False,
            '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
            '"currentVoters":[{"voterId":1}],"data_version":0}',
            id="static-voters",
        ),
    ],
)
def test_quorum_state_is_the_text_that_kafka_writes(new_replica: Callable[..., Any], dynamic: bool, text: str) -> None:
    assert new_replica(dynamic=dynamic).read(f"{LOG}/quorum-state").decode() == text


def test_record_is_committed_once_it_is_synced(replica: Any) -> None:
    last = replica.append(b"a", b"b")

    assert replica.client.log_end_offset == last + 1
    assert replica.client.high_watermark == last - 1
    assert replica.listener.records == []
    replica.commit()
    assert replica.client.high_watermark == last + 1
    assert replica.listener.records == [(last - 1, b"a"), (last, b"b")]


def test_appends_during_a_sync_share_the_next_one(replica: Any) -> None:
    for number in range(10):
        replica.append(bytes([number]))

    assert replica.disk.complete_syncs() == 2
    assert [record for _, record in replica.listener.records] == [bytes([number]) for number in range(10)]


def test_append_in_an_older_epoch_is_rejected(replica: Any) -> None:
    with pytest.raises(KafkaError) as caught:
        replica.client.append(0, [b"a"])

    assert caught.value.code is ErrorCode.NOT_CONTROLLER


def test_records_that_exceed_one_batch_are_rejected(replica: Any) -> None:
    with pytest.raises(KafkaError) as caught:
        replica.append(bytes(8 * 1024 * 1024))

    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_replica_that_is_no_voter_does_not_stand_for_election(new_replica: Callable[..., Any]) -> None:
    replica = new_replica(dynamic=False)
    replica.client.close()
    replica.disk.kill()
    replica.static_voters = VoterSet.of([Voter(2, Uuid(bytes(16)), {})])
    replica.start()

    assert not replica.client.is_leader
    assert replica.listener.leaders == [(None, 1)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=12),
    seed=st.integers(0, 10_000),
)
def test_committed_records_survive_a_power_cut_exactly_once(
    new_replica: Callable[..., Any], batches: list[tuple[int, bool]], seed: int
) -> None:
    replica = new_replica()
    for number, (size, is_committed) in enumerate(batches):
        replica.append(*(f"{number}-{index}".encode() for index in range(size)))
        if is_committed:
            replica.commit()
    committed = replica.listener.records

    replica.disk.crash(SeededRandom(seed))
    replica.start()

    assert replica.client.leader_and_epoch == (1, 2)
    assert replica.listener.records[: len(committed)] == committed
    offsets = [offset for offset, _ in replica.listener.records]
    assert offsets == sorted(set(offsets))


def test_snapshot_replaces_the_log_below_it_at_the_next_start(replica: Any) -> None:
    replica.append(b"a")
    replica.commit()
    snapshot_id = replica.snapshot(b"state")
    last = replica.append(b"b")
    replica.commit()

    replica.disk.crash()
    replica.start()

    assert replica.listener.snapshots == [snapshot_id]
    assert replica.listener.records == [(-1, b"state"), (last, b"b")]
    assert replica.client.voters.node_ids == [1]


def test_unfinished_snapshot_is_removed(replica: Any) -> None:
    replica.append(b"a")
    replica.commit()
    snapshot_id = OffsetAndEpoch(replica.client.high_watermark, 1)
    replica.client.create_snapshot(snapshot_id, last_contained_log_time_ms=0).append([b"state"])

    replica.disk.kill()
    replica.start()

    assert replica.listener.snapshots == []
    assert [record for _, record in replica.listener.records] == [b"a"]
    assert not any(name.endswith(".part") for name in replica.disk.list_directory(LOG))


def test_snapshot_synced_after_close_is_adopted_by_the_next_start(replica: Any) -> None:
    replica.append(b"a")
    replica.commit()
    snapshot_id = OffsetAndEpoch(replica.client.high_watermark, 1)
    writer = replica.client.create_snapshot(snapshot_id, last_contained_log_time_ms=0)
    replica.client.finish_snapshot(writer)
    replica.client.close()
    segments = [name for name in replica.disk.list_directory(LOG) if name.endswith(".log")]

    replica.commit()

    assert [name for name in replica.disk.list_directory(LOG) if name.endswith(".log")] == segments
    replica.start()
    assert replica.client.latest_snapshot == snapshot_id


def test_there_is_one_snapshot_per_offset(replica: Any) -> None:
    replica.append(b"a")
    replica.commit()
    snapshot_id = replica.snapshot(b"state")

    assert replica.client.create_snapshot(snapshot_id, last_contained_log_time_ms=0) is None


def test_old_snapshots_are_removed_with_the_log_they_replace(new_replica: Callable[..., Any]) -> None:
    replica = new_replica(config=RaftConfig(retention_size_bytes=1))
    taken = []
    for number in range(3):
        replica.append(bytes(100))
        replica.commit()
        taken.append(replica.snapshot(bytes([number])))

    replica.clock.advance(60_000)
    replica.client.tick(replica.clock.monotonic_ms())

    names = [name for name in replica.disk.list_directory(LOG) if name.endswith(".checkpoint")]
    assert names == [f"{taken[-1].offset:020d}-{taken[-1].epoch:010d}.checkpoint"]
    replica.disk.kill()
    replica.start()
    assert replica.listener.records == [(-1, bytes([2]))]


@pytest.mark.parametrize(("age_ms", "kept"), [(1_000, 2), (1_001, 1)])
def test_snapshots_older_than_the_retention_time_are_removed(
    new_replica: Callable[..., Any], age_ms: int, kept: int
) -> None:
    replica = new_replica(config=RaftConfig(retention_size_bytes=-1, retention_ms=1_000))
    for number in range(2):
        replica.append(bytes([number]))
        replica.commit()
        replica.snapshot(bytes([number]))
    replica.clock.step_wall(age_ms - 60_000)
    replica.clock.advance(60_000)

    replica.client.tick(replica.clock.monotonic_ms())

    names = [name for name in replica.disk.list_directory(LOG) if name.endswith(".checkpoint")]
    assert len(names) == kept


def test_failed_sync_stops_the_replica_and_commits_nothing(replica: Any) -> None:
    replica.append(b"a")
    replica.disk.fail_next("sync", errno.EIO)
    replica.commit()

    assert [type(failure) for failure in replica.failures] == [StorageError]
    assert replica.listener.records == []


def test_failed_write_stops_the_replica(replica: Any) -> None:
    replica.disk.fail_next("write", errno.ENOSPC, path_part=LOG)

    with pytest.raises(StorageError):
        replica.append(b"a")

    assert len(replica.failures) == 1


def test_replica_without_a_descriptor_for_a_sync_stops_in_order(replica: Any) -> None:
    """It would wait for a sync that never started; the disk's reserve of descriptors comes before that."""
    replica.client._replica.log.log.segments()[-1].close()
    replica.disk.fail_next("open", errno.EMFILE, path_part=LOG)

    with pytest.raises(ShortageError):
        replica.append(b"a")

    assert [type(failure) for failure in replica.failures] == [ShortageError]


def test_batch_of_an_epoch_without_a_leader_is_truncated(replica: Any) -> None:
    """Found by the simulator (seed 207): a flipped bit in an unsynced batch put a node into an epoch of its own."""
    replica.append(b"kept")
    replica.commit()
    replica.append(b"flipped")
    path = f"{LOG}/{0:020d}.log"
    at = sum(batch.size_bytes for batch in list(iterate_batches(replica.read(path)))[:-1])
    replica.disk.kill()
    replica.disk.corrupt(path, at + 13, b"\x01")

    replica.start()

    assert replica.listener.leaders == [(1, 2)]
    assert [record for _, record in replica.listener.records] == [b"kept"]


def test_leader_with_append_linger_syncs_records_together(new_replica: Callable[..., Any]) -> None:
    replica = new_replica(config=RaftConfig(append_linger_ms=25))
    replica.clock.advance(25)
    replica.client.tick(replica.clock.monotonic_ms())
    replica.commit()
    committed = replica.client.high_watermark

    replica.append(b"a")
    replica.clock.advance(24)
    replica.client.tick(replica.clock.monotonic_ms())
    replica.append(b"b")
    replica.commit()
    assert replica.client.high_watermark == committed
    assert replica.client.next_deadline_ms() == replica.clock.monotonic_ms() + 1

    replica.clock.advance(1)
    replica.client.tick(replica.clock.monotonic_ms())
    replica.commit()
    assert replica.client.high_watermark == committed + 2


def test_leader_without_append_linger_syncs_at_once(replica: Any) -> None:
    committed = replica.client.high_watermark

    replica.append(b"a")
    replica.commit()

    assert replica.client.high_watermark == committed + 1
