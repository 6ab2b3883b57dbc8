"""A follower, message by message: what it does with the leader's answers, and when the leader is gone."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerAnswer, PeerFailure
from ottla.purgatory import Delayed
from ottla.raft.client import RaftClient
from ottla.raft.config import RaftConfig
from ottla.raft.follower import FollowerState
from ottla.raft.prospective import ProspectiveState
from ottla.raft.records import LeaderAndEpoch, ReplicaKey
from ottla.raft.requests import (
    Learned,
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_response,
    fetch_snapshot_response,
    vote_request,
    vote_response,
)
from ottla.raft.voter_set import Voter, VoterSet
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import ZERO_UUID, Endpoint, OffsetAndEpoch, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.fetch import FetchRequest, PartitionData, SnapshotId
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponsePartitionSnapshot
from ottla.wire.messages.vote import VoteRequest
from ottla.wire.records import Record, build_batch

LOCAL = ReplicaKey(1, Uuid(b"d" * 16))
LEADER = 2
ENDPOINTS = {node_id: Endpoint(f"node-{node_id}", 9093) for node_id in (1, 2, 3)}


class Sent(NamedTuple):
    """One request on its way; `answer` it."""

    endpoint: Endpoint
    request: Message
    answer: Delayed[PeerAnswer]
    lane: str


class ScriptedChannel:
    """A `PeerChannel` whose other ends are the test."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, lane: str = ""
    ) -> Delayed[PeerAnswer]:
        del listener, timeout_ms
        self.sent.append(Sent(endpoint, request, Delayed(), lane))
        return self.sent[-1].answer

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        raise NotImplementedError

    def take(self, kind: type[Message]) -> list[Sent]:
        """Return the requests of ``kind`` that wait for an answer, and forget them."""
        found = [sent for sent in self.sent if isinstance(sent.request, kind)]
        self.sent = [sent for sent in self.sent if not isinstance(sent.request, kind)]
        return found


class Follower:
    """Voter 1 of three, following voter 2 in epoch 1."""

    def __init__(self, serde: Any, config: RaftConfig | None = None) -> None:
        self.clock = SimulatedClock()
        self.disk = SimulatedDisk()
        self.channel = ScriptedChannel()
        self.failures: list[Exception] = []
        self.committed: list[bytes] = []
        self.client: RaftClient[bytes] = RaftClient(
            disk=self.disk,
            clock=self.clock,
            directory="/d",
            node_id=LOCAL.node_id,
            directory_id=LOCAL.directory_id,
            serde=serde,
            static_voters=VoterSet.of(
                Voter(node_id, ZERO_UUID, {"CONTROLLER": endpoint}) for node_id, endpoint in ENDPOINTS.items()
            ),
            random=SeededRandom(1),
            channel=self.channel,
            cluster_id="c",
            listeners={"CONTROLLER": ENDPOINTS[1]},
            listener_name="CONTROLLER",
            bootstrap_servers=(),
            is_controller=True,
            config=config,
            on_failure=self.failures.append,
        )
        self.client.register(self)
        self.client.initialize()
        self.channel.sent.clear()
        self.client.handle_begin_quorum_epoch(
            begin_quorum_epoch_request(
                cluster_id="c", voter=LOCAL, leader=LeaderAndEpoch(LEADER, 1), listeners={"CONTROLLER": ENDPOINTS[2]}
            )
        )

    def on_committed(self, batches: Any) -> None:
        self.committed += [record for batch in batches for record in batch.records]

    def on_snapshot(self, reader: Any) -> None: ...

    def on_leader_change(self, leader: LeaderAndEpoch) -> None: ...

    def fetch(self) -> Sent:
        """Return the one fetch under way."""
        (sent,) = self.channel.take(FetchRequest)
        return sent

    def asked_at(self) -> tuple[int, int]:
        request = self.channel.sent[-1].request
        assert isinstance(request, FetchRequest)
        partition = request.topics[0].partitions[0]
        return partition.fetch_offset, partition.last_fetched_epoch

    def answer(self, **fields: Any) -> None:
        """Let the leader answer the fetch under way."""
        partition = PartitionData(partition_index=0, **{"records": b"", "high_watermark": -1, **fields})
        self.fetch().answer.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with every tick that is due."""
        end_ms = self.clock.monotonic_ms() + milliseconds
        while (due_ms := self.client.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.clock.advance(max(due_ms - self.clock.monotonic_ms(), 0))
            self.client.tick(self.clock.monotonic_ms())
        self.clock.advance(end_ms - self.clock.monotonic_ms())

    def pre_vote_of_node_3(self) -> bool:
        """Whether node 3 would get a vote from here."""
        request = vote_request(
            cluster_id="c",
            voter=LOCAL,
            candidate=ReplicaKey(3, Uuid(b"f" * 16)),
            epoch=1,
            log_end=OffsetAndEpoch(100, 1),
            is_pre_vote=True,
        )
        return self.client.handle_vote(request).topics[0].partitions[0].vote_granted


@pytest.fixture
def follower(bytes_serde: Any) -> Follower:
    return Follower(bytes_serde)


def batch(offset: int, epoch: int, *values: bytes) -> bytes:
    records = [Record(offset + index, 0, None, value) for index, value in enumerate(values)]
    return build_batch(records, base_offset=offset, leader_epoch=epoch)


# --- the log


def test_a_voter_syncs_what_it_fetched_before_it_fetches_on(follower: Follower) -> None:
    follower.answer(records=batch(0, 1, b"a", b"b"))
    assert follower.channel.sent == []

    follower.disk.complete_syncs()

    assert follower.asked_at() == (2, 1)


def test_records_are_told_when_the_high_watermark_passes_them(follower: Follower) -> None:
    follower.answer(records=batch(0, 1, b"a") + batch(1, 1, b"b"), high_watermark=1)
    follower.disk.complete_syncs()
    assert follower.committed == [b"a"]

    follower.answer(high_watermark=2)

    assert follower.committed == [b"a", b"b"]


def test_a_diverged_log_is_cut_where_the_leader_s_parts_and_commits_nothing_of_it(follower: Follower) -> None:
    follower.answer(records=batch(0, 1, b"a") + batch(1, 1, b"b"))
    follower.disk.complete_syncs()

    partition = PartitionData(partition_index=0, high_watermark=2, records=b"")
    partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset = 1, 1
    follower.fetch().answer.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))
    follower.disk.complete_syncs()

    assert follower.client.log_end_offset == 1
    assert follower.committed == []
    assert follower.asked_at() == (1, 1)


def test_a_log_that_a_snapshot_is_to_replace_is_not_committed(follower: Follower) -> None:
    follower.answer(records=batch(0, 1, b"a") + batch(1, 1, b"b"))
    follower.disk.complete_syncs()

    partition = PartitionData(partition_index=0, high_watermark=9, records=b"")
    partition.snapshot_id.epoch, partition.snapshot_id.end_offset = 1, 9
    follower.fetch().answer.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    assert follower.committed == []
    assert follower.client.high_watermark is None


def test_a_snapshot_of_which_nothing_comes_is_given_up(follower: Follower) -> None:
    partition = PartitionData(partition_index=0, records=b"")
    partition.snapshot_id.epoch, partition.snapshot_id.end_offset = 1, 9
    follower.fetch().answer.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))
    (asked,) = follower.channel.take(FetchSnapshotRequest)

    nothing = FetchSnapshotResponsePartitionSnapshot(index=0, size=100, position=0, unaligned_records=b"")
    nothing.snapshot_id.epoch, nothing.snapshot_id.end_offset = 1, 9
    asked.answer.complete(fetch_snapshot_response(nothing, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    assert follower.channel.sent == []
    follower.advance(500)
    assert follower.asked_at() == (0, 0)


def test_a_leader_that_lost_committed_records_is_not_obeyed(follower: Follower) -> None:
    follower.answer(records=batch(0, 1, b"a") + batch(1, 1, b"b"), high_watermark=2)
    follower.disk.complete_syncs()

    partition = PartitionData(partition_index=0, records=b"")
    partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset = 1, 1
    follower.fetch().answer.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    assert follower.client.log_end_offset == 2
    assert "has lost records" in str(follower.failures[0])


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-1] + b"!", id="bits-flipped"),
        pytest.param(lambda data: batch(5, 1, b"x"), id="a-gap"),
        pytest.param(lambda data: batch(0, 2, b"x"), id="from-a-later-epoch"),
    ],
)
def test_records_that_cannot_be_are_not_kept(follower: Follower, damage: Callable[[bytes], bytes]) -> None:
    follower.answer(records=damage(batch(0, 1, b"a")))
    follower.disk.complete_syncs()
    follower.advance(100)

    assert follower.client.log_end_offset == 0
    assert follower.asked_at() == (0, 0)
    assert not follower.failures


def test_a_node_that_refuses_a_fetch_is_named_also_while_it_knows_no_leader(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    refused = PartitionData(partition_index=0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)

    follower.fetch().answer.complete(fetch_response(refused, Learned(None, 1, None)))

    said = [record.message for record in caplog.records if "UNKNOWN_LEADER_EPOCH" in record.message]
    assert said == [f"node {ENDPOINTS[LEADER]} of the metadata quorum refuses a fetch: UNKNOWN_LEADER_EPOCH"]


def test_an_error_of_a_later_release_is_a_refusal_like_any_other(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    refused = PartitionData(partition_index=0, error_code=max(ErrorCode) + 1)

    follower.fetch().answer.complete(fetch_response(refused, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    assert any("UNKNOWN_SERVER_ERROR" in record.message for record in caplog.records)
    follower.advance(100)
    assert follower.fetch().endpoint in ENDPOINTS.values()
    assert not follower.failures


def test_a_leader_of_another_release_is_named_once(follower: Follower, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for _ in range(3):
        follower.fetch().answer.complete(PeerFailure.UNSUPPORTED_VERSION)
        follower.advance(300)

    said = [record.message for record in caplog.records if "UNSUPPORTED_VERSION" in record.message]
    assert len(said) == len(set(said))
    assert any("FetchRequest" in line for line in said)


# --- the leader is gone


def test_a_broken_connection_is_made_again_at_once(follower: Follower) -> None:
    follower.fetch().answer.complete(PeerFailure.DISCONNECTED)

    assert follower.fetch().endpoint == ENDPOINTS[LEADER]
    assert isinstance(follower.client.state, FollowerState)


def test_a_refused_connection_starts_a_pre_vote_within_50_ms_and_grants_others_theirs(follower: Follower) -> None:
    follower.answer()
    assert not follower.pre_vote_of_node_3()
    follower.fetch().answer.complete(PeerFailure.DISCONNECTED)
    assert not follower.pre_vote_of_node_3()

    follower.fetch().answer.complete(PeerFailure.REFUSED)

    assert follower.pre_vote_of_node_3()
    follower.advance(50)
    asked = follower.channel.take(VoteRequest)
    assert [sent.endpoint for sent in asked] == [ENDPOINTS[2], ENDPOINTS[3]]
    assert follower.client.leader_and_epoch == (LEADER, 1)


def test_a_false_alarm_costs_no_epoch_and_the_pauses_grow(follower: Follower) -> None:
    asked_at_ms = []
    for _ in range(6):
        follower.advance(2_000 if not follower.channel.sent else 0)
        follower.fetch().answer.complete(PeerFailure.REFUSED)
        before_ms = follower.clock.monotonic_ms()
        while not isinstance(follower.client.state, ProspectiveState):
            for sent in follower.channel.take(FetchRequest):
                sent.answer.complete(PeerFailure.TIMED_OUT)
            follower.advance(1)
        asked_at_ms.append(follower.clock.monotonic_ms() - before_ms)
        for sent in follower.channel.take(VoteRequest):
            leader = Learned(LEADER, 1, ENDPOINTS[LEADER])
            sent.answer.complete(vote_response(0, leader, is_granted=False))

    assert follower.client.leader_and_epoch == (LEADER, 1)
    assert isinstance(follower.client.state, FollowerState)
    assert max(asked_at_ms[3:]) > 50
    assert all(pause_ms <= 1_000 for pause_ms in asked_at_ms)


def test_a_leader_that_answers_again_is_followed_as_before(follower: Follower) -> None:
    follower.answer()
    follower.fetch().answer.complete(PeerFailure.REFUSED)
    follower.advance(30)

    for sent in follower.channel.take(VoteRequest):
        sent.answer.complete(vote_response(0, Learned(LEADER, 1, ENDPOINTS[LEADER]), is_granted=False))
    follower.answer()

    assert not follower.pre_vote_of_node_3()
    assert isinstance(follower.client.state, FollowerState)


def test_a_leader_that_says_that_it_does_not_lead_is_given_up_at_once(follower: Follower) -> None:
    follower.answer()
    partition = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, records=b"")
    follower.fetch().answer.complete(fetch_response(partition, Learned(None, 1, None)))

    assert follower.pre_vote_of_node_3()
    follower.advance(50)
    assert isinstance(follower.client.state, ProspectiveState)


@pytest.mark.parametrize(
    ("failure", "stands_after_ms"),
    [pytest.param(PeerFailure.TIMED_OUT, 2_000, id="silent"), pytest.param(PeerFailure.REFUSED, 50, id="refused")],
)
def test_a_silent_leader_has_the_fetch_timeout(follower: Follower, failure: PeerFailure, stands_after_ms: int) -> None:
    follower.fetch().answer.complete(failure)

    follower.advance(49)
    if stands_after_ms > 50:
        assert isinstance(follower.client.state, FollowerState)
    follower.advance(stands_after_ms - 49)

    assert isinstance(follower.client.state, ProspectiveState)


@pytest.mark.parametrize(("successors", "stands_after_ms"), [([1, 3], 0), ([3, 1], 500)])
def test_after_a_resignation_the_successors_stand_one_after_the_other(
    follower: Follower, successors: list[int], stands_after_ms: int
) -> None:
    follower.client.handle_end_quorum_epoch(
        end_quorum_epoch_request(
            cluster_id="c",
            leader_id=LEADER,
            epoch=1,
            preferred_successors=[ReplicaKey(each, ZERO_UUID) for each in successors],
            listeners={},
        )
    )

    if stands_after_ms:
        follower.advance(stands_after_ms - 1)
        assert isinstance(follower.client.state, FollowerState)
    follower.advance(1 if stands_after_ms else 0)
    assert isinstance(follower.client.state, ProspectiveState)


# --- asking for votes


def test_a_voter_that_is_older_than_pre_votes_is_asked_for_its_vote(follower: Follower) -> None:
    follower.advance(2_000)
    for sent in follower.channel.take(VoteRequest):
        sent.answer.complete(PeerFailure.UNSUPPORTED_VERSION)

    asked = [sent.request.topics[0].partitions[0] for sent in follower.channel.take(VoteRequest)]
    assert {(each.pre_vote, each.replica_epoch) for each in asked} == {(False, 2)}


def test_a_voter_that_refuses_in_an_older_epoch_is_not_asked_again_at_once(follower: Follower) -> None:
    follower.advance(2_000)
    first, _ = follower.channel.take(VoteRequest)

    answer = vote_response(ErrorCode.INVALID_REQUEST, Learned(None, 0, None), is_granted=False)
    first.answer.complete(answer)

    assert follower.channel.take(VoteRequest) == []


# --- what must not be cut off


def test_a_log_is_not_cut_below_what_is_committed_by_an_offset_that_looks_harmless(follower: Follower) -> None:
    follower.fetch()
    follower.client.handle_begin_quorum_epoch(
        begin_quorum_epoch_request(
            cluster_id="c", voter=LOCAL, leader=LeaderAndEpoch(LEADER, 2), listeners={"CONTROLLER": ENDPOINTS[2]}
        )
    )
    leader = Learned(LEADER, 2, ENDPOINTS[LEADER])
    partition = PartitionData(partition_index=0, high_watermark=2, records=batch(0, 2, b"a", b"b"))
    follower.fetch().answer.complete(fetch_response(partition, leader))
    follower.disk.complete_syncs()

    # The leader's epoch 1 ends at 2; but no record of epoch 1 is here, so everything would go.
    partition = PartitionData(partition_index=0, records=b"")
    partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset = 1, 2
    follower.fetch().answer.complete(fetch_response(partition, leader))

    assert follower.client.log_end_offset == 2
    assert "has lost records" in str(follower.failures[0])


def test_a_fetch_asks_for_as_much_as_is_configured(bytes_serde: Any) -> None:
    follower = Follower(bytes_serde, RaftConfig(fetch_size_bytes_max=4_000, fetch_snapshot_size_bytes_max=300))

    asked = follower.channel.sent[-1].request
    assert isinstance(asked, FetchRequest)
    assert (asked.max_bytes, asked.topics[0].partitions[0].partition_max_bytes) == (4_000, 4_000)

    follower.answer(snapshot_id=SnapshotId(end_offset=9, epoch=1))
    follower.advance(1_000)

    (sent,) = follower.channel.take(FetchSnapshotRequest)
    assert isinstance(sent.request, FetchSnapshotRequest)
    assert sent.request.max_bytes == 300
