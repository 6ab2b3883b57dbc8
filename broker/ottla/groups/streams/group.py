"""`StreamsGroup`: topology, members, epochs and tasks of one group, as its records say.

Everything here changes by the replay of records only, except what is marked as soft: it is derived, or a note of the
last heartbeats, and another coordinator starts without it, as in Kafka.

Source: StreamsGroup of Apache Kafka 4.3.
"""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass

from ottla.groups.modern.counts import add_count
from ottla.groups.modern.group import ModernGroup
from ottla.groups.streams.member import MemberState, MemberTasks, StreamsMember
from ottla.groups.streams.state import StreamsGroupState
from ottla.groups.streams.tasks import TaskAssignment, Tasks
from ottla.groups.streams.topics.configured import ConfiguredTopology
from ottla.groups.streams.topology import Topology
from ottla.wire.messages.streams_group_heartbeat import EndpointToPartitions


@dataclass(frozen=True, slots=True)
class EndpointOfMember:
    """The partitions of one member, as they are for as long as member and topology are the same objects."""

    member: StreamsMember
    configured: ConfiguredTopology
    partitions: EndpointToPartitions


class StreamsGroup(ModernGroup[StreamsMember, TaskAssignment]):
    """One group.

    Attributes:
        topology: None until the record of the first member's topology.
        validated_topology_epoch: of the topology whose topics were all there at the last change of `epoch`; else -1.
        assignment_configs: settings of the assignor at the last change of `epoch`, as text by name.
        configured: the topology with the topics of the cluster. Soft.
        endpoints: what `endpoints` has computed for members. Soft.
        endpoint_epoch: counts changes of the tasks of members with a user endpoint. Soft.
        shutdown_requested_by: the member that wants the application to end, until the group is empty. Soft.
    """

    __slots__ = (
        "_active",
        "_copies",
        "_stable_by_epoch",
        "assignment_configs",
        "configured",
        "endpoint_epoch",
        "endpoints",
        "shutdown_requested_by",
        "topology",
        "validated_topology_epoch",
    )

    def __init__(self, group_id: str) -> None:
        """Create a group without members and topology."""
        super().__init__(group_id)
        self.topology: Topology | None = None
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        self.endpoints: dict[str, EndpointOfMember] = {}
        self.shutdown_requested_by: str | None = None
        self._active: dict[str, dict[int, str]] = {}
        """Process id by active task."""
        self._copies: dict[str, dict[int, Counter[str]]] = {}
        """Process ids by standby and warm-up task."""
        self._stable_by_epoch: Counter[int] = Counter()

    # Topology

    @property
    def topic_names(self) -> Container[str]:
        return () if self.topology is None else self.topology.required_topics

    def put_topology(self, topology: Topology | None) -> None:
        """Set the topology; what was configured for another one is void."""
        self.topology = topology
        self.configured = None

    def subtopology_of_source(self, topic: str) -> str | None:
        """Return the id of the subtopology that reads a topic."""
        return None if self.topology is None else self.topology.subtopology_of_source.get(topic)

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.subtopology_of_source(topic) is not None

    # State

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if self._stable_by_epoch[self.assignment_epoch] < len(self.members):
            return StreamsGroupState.RECONCILING
        return StreamsGroupState.STABLE

    # All partitions of a subtopology at once: a member may have thousands of tasks.

    def active_anywhere(self, subtopology_id: str, partitions: frozenset[int]) -> frozenset[int]:
        """Return the partitions whose task a process runs, or has still to revoke."""
        return partitions & self._active.get(subtopology_id, {}).keys()

    def with_task(self, process_id: str, subtopology_id: str, partitions: frozenset[int]) -> frozenset[int]:
        """Return the partitions whose task a process has in any role, or has still to revoke."""
        owners = self._active.get(subtopology_id, {})
        active = (each for each in partitions & owners.keys() if owners[each] == process_id)
        return self.with_copy(process_id, subtopology_id, partitions).union(active)

    def with_copy(self, process_id: str, subtopology_id: str, partitions: frozenset[int]) -> frozenset[int]:
        """Return the partitions whose task a process has as a standby or for warm-up, or has still to revoke."""
        copies = self._copies.get(subtopology_id, {})
        return frozenset(each for each in partitions & copies.keys() if process_id in copies[each])

    # Members

    def put_member(self, member: StreamsMember) -> None:
        """Add a member, or replace the one with its id."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count(old, -1)
        self._count(member, 1)

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it exists."""
        self._count(self.members.pop(member_id, None), -1)
        self.endpoints.pop(member_id, None)
        if not self.members:
            self.shutdown_requested_by = None

    def _count(self, member: StreamsMember | None, change: int) -> None:
        if member is None:
            return
        if member.state is MemberState.STABLE:
            add_count(self._stable_by_epoch, member.member_epoch, change)
        for tasks in (member.assigned, member.pending_revocation):
            self._count_active(tasks, member.process_id, change)
            self._count_copies(tasks.standby, member.process_id, change)
            self._count_copies(tasks.warmup, member.process_id, change)

    def _count_active(self, tasks: MemberTasks, process_id: str, change: int) -> None:
        # The newest record counts: a process that an older one shows as the owner has lost the task meanwhile.
        for subtopology_id, partitions in tasks.active.items():
            owners = self._active.setdefault(subtopology_id, {})
            if change > 0:
                owners.update(dict.fromkeys(partitions, process_id))
                continue
            for partition in partitions:
                if owners.get(partition) == process_id:
                    del owners[partition]
            if not owners:
                del self._active[subtopology_id]

    def _count_copies(self, tasks: Tasks, process_id: str, change: int) -> None:
        for subtopology_id, partitions in tasks.items():
            copies = self._copies.setdefault(subtopology_id, {})
            for partition in partitions:
                processes = copies.setdefault(partition, Counter())
                add_count(processes, process_id, change)
                if not processes:
                    del copies[partition]
            if not copies:
                del self._copies[subtopology_id]
