"""The metrics of a replica of the metadata quorum."""

from typing import Any, Final, NamedTuple

from ottla.metrics.registry import Rows, by_label, gauge
from ottla.raft.client import RaftClient
from ottla.types import LeaderEpoch, NodeId, Offset

_RAFT: Final = "kafka_server_raftmetrics"


class QuorumSample(NamedTuple):
    """The metadata quorum as this node sees it; -1 where there is none."""

    leader_id: NodeId
    epoch: LeaderEpoch
    state: str
    """As Kafka's metric current-state has it: leader, follower, observer, candidate ..."""
    high_watermark: Offset
    log_end_offset: Offset
    voter_count: int


def sample_quorum(raft: RaftClient[Any]) -> QuorumSample:
    leader_id, epoch = raft.leader_and_epoch
    high_watermark = raft.high_watermark
    return QuorumSample(
        -1 if leader_id is None else leader_id,
        epoch,
        _state_name(raft),
        -1 if high_watermark is None else high_watermark,
        raft.log_end_offset,
        len(raft.voters.voters),
    )


def _state_name(raft: RaftClient[Any]) -> str:
    name = type(raft.state).__name__.removesuffix("State").lower()
    is_observer = name == "follower" and not raft.voters.is_voter(raft.local)
    return "observer" if is_observer else name


ROWS: Final[Rows[QuorumSample]] = (
    by_label(
        "unknown",
        f"{_RAFT}_current_state",
        "Role in the quorum.",
        "current_state",
        lambda quorum: {quorum.state: 1.0},
    ),
    gauge(f"{_RAFT}_current_leader", "Node id of the leader; -1 without one.", lambda quorum: quorum.leader_id),
    gauge(f"{_RAFT}_current_epoch", "Epoch of the quorum.", lambda quorum: quorum.epoch),
    gauge(
        f"{_RAFT}_high_watermark",
        "First offset that is not committed; -1 unknown.",
        lambda quorum: quorum.high_watermark,
    ),
    gauge(f"{_RAFT}_log_end_offset", "Log end offset of the metadata log.", lambda quorum: quorum.log_end_offset),
    gauge(f"{_RAFT}_number_of_voters", "Voters of the quorum.", lambda quorum: quorum.voter_count),
)
