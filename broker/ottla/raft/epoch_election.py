"""The votes of one election: the voters that granted or rejected, and whether that decides it.

Source: EpochElection of Apache Kafka.
"""

from dataclasses import dataclass, field

from ottla.types import NodeId


@dataclass(slots=True)
class EpochElection:
    """``voters`` are the ids of all voters; a voter's later response replaces its earlier one."""

    voters: tuple[NodeId, ...]
    votes: dict[NodeId, bool] = field(default_factory=dict)

    def record(self, voter_id: NodeId, *, is_granted: bool) -> None:
        if voter_id in self.voters:
            self.votes[voter_id] = is_granted

    @property
    def granted_by(self) -> list[NodeId]:
        return sorted(voter for voter, is_granted in self.votes.items() if is_granted)

    @property
    def unrecorded_voters(self) -> list[NodeId]:
        """The voters without a recorded response."""
        return [voter for voter in self.voters if voter not in self.votes]

    @property
    def is_won(self) -> bool:
        """Whether more than half of the voters granted their vote."""
        return 2 * len(self.granted_by) > len(self.voters)

    @property
    def is_lost(self) -> bool:
        """Whether the voters that have not rejected are no majority any more."""
        rejected = sum(1 for is_granted in self.votes.values() if not is_granted)
        return 2 * (len(self.voters) - rejected) <= len(self.voters)
