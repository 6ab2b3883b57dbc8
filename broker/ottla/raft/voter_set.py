"""The voters of the quorum: the replicas that elect a leader and commit records.

With kraft.version 1 the set lives in the log and its snapshots (KIP-853), with directory ids and endpoints; with
kraft.version 0 it comes from ``controller.quorum.voters`` and has neither.

Source: VoterSet of Apache Kafka.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.raft.records import ReplicaKey
from ottla.types import ZERO_UUID, Endpoint, NodeId, Uuid
from ottla.wire.messages import control_records as wire

KRAFT_VERSION_FEATURE: Final = "kraft.version"
SUPPORTED_KRAFT_VERSIONS: Final = (0, 1)


class Voter(NamedTuple):
    """One voter; ``listeners`` are its controller listeners by name, in order; the versions, first and last."""

    node_id: NodeId
    directory_id: Uuid
    listeners: Mapping[str, Endpoint]
    kraft_versions: tuple[int, int] = SUPPORTED_KRAFT_VERSIONS

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters by node id; there is never more than one of each id."""

    voters: Mapping[NodeId, Voter]

    def __str__(self) -> str:
        """Return the voters' keys, for messages."""
        return f"[{', '.join(str(self.voters[node_id].key) for node_id in self.node_ids)}]"

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> "VoterSet":
        return cls({voter.node_id: voter for voter in voters})

    @property
    def node_ids(self) -> list[NodeId]:
        return sorted(self.voters)

    def is_voter(self, replica: ReplicaKey) -> bool:
        """Whether ``replica`` is in the set; a voter without a directory id matches by its node id."""
        voter = self.voters.get(replica.node_id)
        return voter is not None and voter.directory_id in (ZERO_UUID, replica.directory_id)

    def key_of(self, replica: ReplicaKey) -> ReplicaKey:
        """Return the key under which ``replica`` is a voter, else ``replica``: a static voter has no directory id."""
        voter = self.voters.get(replica.node_id)
        if voter is None or voter.directory_id == replica.directory_id:
            return replica
        return voter.key if self.is_voter(replica) else replica

    def endpoint_of(self, node_id: NodeId, listener: str) -> Endpoint | None:
        """Return the voter's advertised address; None when it is no voter or has no such listener."""
        voter = self.voters.get(node_id)
        return None if voter is None else voter.listeners.get(listener)

    @property
    def majority(self) -> int:
        """Number of voters that is more than half."""
        return len(self.voters) // 2 + 1

    def with_voter(self, voter: Voter) -> "VoterSet":
        """Return the set with ``voter``, in place of the one with its id."""
        return VoterSet({**self.voters, voter.node_id: voter})

    def without_voter(self, node_id: NodeId) -> "VoterSet":
        return VoterSet({each: voter for each, voter in self.voters.items() if each != node_id})

    def is_only_voter(self, replica: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.is_voter(replica)

    def to_message(self) -> wire.VotersRecord:
        return wire.VotersRecord(
            version=0,
            voters=[
                wire.VotersRecordVoter(
                    voter_id=voter.node_id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[
                        wire.Endpoint(name=name, host=host, port=port) for name, (host, port) in voter.listeners.items()
                    ],
                    kraft_version_feature=wire.KRaftVersionFeature(
                        min_supported_version=voter.kraft_versions[0],
                        max_supported_version=voter.kraft_versions[1],
                    ),
                )
                for _, voter in sorted(self.voters.items())
            ],
        )

    @classmethod
    def from_message(cls, message: wire.VotersRecord) -> "VoterSet":
        return cls.of(
            Voter(
                voter.voter_id,
                voter.voter_directory_id,
                {end_point.name: Endpoint(end_point.host, end_point.port) for end_point in voter.endpoints},
                (
                    voter.kraft_version_feature.min_supported_version,
                    voter.kraft_version_feature.max_supported_version,
                ),
            )
            for voter in message.voters
        )
