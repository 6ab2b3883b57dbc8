"""`VoterReconciler`: keeps every controller a voter, also after its disk was replaced; acts as an administrator.

A voter whose disk was replaced returns under another directory id, which is no voter: the old voter is
removed, then the controller is added again (KIP-853), one step at a time. A voter may also be removed for a while.
A request may be rejected or get lost: the reconciler checks again, and sends it again.
"""

from ottla.errors import ErrorCode
from ottla.node.node import Node
from ottla.peers.channel import PeerResult
from ottla.raft.leader import LeaderState
from ottla.raft.voter_set import Voter
from ottla.simulator.clients.administrator import Administrator
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.node import SimulatedNode
from ottla.types import NodeId
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterResponse

CHECK_INTERVAL_MS = 2_000
WHOLE_VOTERS_MIN = 3
"""One of so many may be lost, and the others still are a majority."""
REMOVAL_LIMIT_MS = 60_000
"""How long a removal without a response may still be on its way: held by links that fail, or by a paused node."""
_REMOVAL_DONE = (ErrorCode.NONE, ErrorCode.VOTER_NOT_FOUND)


class VoterReconciler:
    """See the module."""

    def __init__(self, cluster: Cluster, host: ClientHost, administrator: Administrator) -> None:
        self._cluster = cluster
        self._host = host
        self._administrator = administrator
        self._away: dict[NodeId, None] = {}
        self._removals: dict[int, int] = {}
        self._removal_count = 0

    def start(self) -> None:
        """Reconcile the voters from now on, in intervals."""
        self._step()
        self._host.after(1 + self._host.random.randrange(2 * CHECK_INTERVAL_MS), self.start)

    def want_all(self) -> None:
        self._away.clear()

    def send_away(self, node_id: NodeId) -> None:
        """Have the node removed from the voters, until `take_back`."""
        self._away[node_id] = None

    def take_back(self, node_id: NodeId) -> None:
        self._away.pop(node_id, None)

    @property
    def is_whole(self) -> bool:
        """Whether the quorum keeps a leader and all committed records when any one of its voters loses its disk.

        That is so when there are at least three, each runs with the disk that it became a voter with, and knows the
        same voters as the leader, which has committed all that it has. A committed record is then on a majority of
        these disks, and each majority of the voters that are left has one of them.

        Nor may a removal of one of them be under way: two voters would be left, one of them without its disk.
        """
        leader = self._leader()
        if self._away or self._is_removal_pending():
            return False
        if leader is None or leader.raft.high_watermark != leader.raft.log_end_offset:
            return False
        voters = leader.raft.voters
        return len(voters.voters) >= WHOLE_VOTERS_MIN and all(
            self._is_at_home(voter) and _process_of(self._cluster.nodes[voter.node_id]).raft.voters == voters
            for voter in voters.voters.values()
        )

    @property
    def is_settled(self) -> bool:
        """Whether exactly the controllers are voters, with the disks that they have now."""
        leader = self._leader()
        return leader is not None and self._next_change(leader) is None

    def _is_removal_pending(self) -> bool:
        limit_ms = self._cluster.clock.monotonic_ms() - REMOVAL_LIMIT_MS
        return any(asked_ms > limit_ms for asked_ms in self._removals.values())

    def _is_at_home(self, voter: Voter) -> bool:
        place = self._cluster.nodes[voter.node_id]
        return place.process is not None and place.directory_id == voter.directory_id

    def _leader(self) -> Node | None:
        """Return the newest leader of the quorum that runs."""
        processes = [each.process for each in self._cluster.nodes.values() if each.process is not None]
        leaders = [process for process in processes if isinstance(process.raft.state, LeaderState)]
        return max(leaders, key=lambda process: process.raft.state.epoch, default=None)

    def _next_change(self, leader: Node) -> tuple[SimulatedNode, Voter | None] | None:
        """Return a controller to remove or add, with the voter to remove (None: add the controller)."""
        voters = leader.raft.voters.voters
        for place in self._cluster.nodes.values():
            voter = voters.get(place.node_id)
            is_wanted = place.is_controller and place.node_id not in self._away
            if voter is not None and not (is_wanted and voter.directory_id == place.directory_id):
                return place, voter
            if voter is None and is_wanted:
                return place, None
        return None

    def _step(self) -> None:
        leader = self._leader()
        change = None if leader is None else self._next_change(leader)
        if change is None:
            return
        place, voter = change
        if voter is not None:
            self._remove(voter, has_its_disk=voter.directory_id == place.directory_id)
        elif place.process is not None:
            self._administrator.add_voter(place.node_id, place.directory_id, place.controller_endpoint)

    def _remove(self, voter: Voter, *, has_its_disk: bool) -> None:
        self._removal_count += 1
        number = self._removal_count
        if has_its_disk:  # without it, another removal would change nothing
            self._removals[number] = self._cluster.clock.monotonic_ms()

        def on_response(response: PeerResult) -> None:
            if isinstance(response, RemoveRaftVoterResponse) and response.error_code in _REMOVAL_DONE:
                self._removals.pop(number, None)

        self._administrator.remove_voter(voter.node_id, voter.directory_id, on_response)


def _process_of(place: SimulatedNode) -> Node:
    assert place.process is not None, "only running nodes have a process"
    return place.process
