"""A simulated member of a streams group (KIP-1071): heartbeats, reconciles its tasks, and commits offsets.

It is a thread of a `StreamsProcess` of an application with two subtopologies: the first reads the topic of the run and
writes a repartition topic, which the second one reads; the second one has state, and thus standby tasks. Both internal
topics are created by the broker. Offsets are committed for the active tasks of the first subtopology.

Now and then a member stops sending heartbeats for longer than its session, leaves and joins again, or does not revoke
its tasks any more, until it is fenced; or its process crashes, and starts again with the id of its state directory.

Source: StreamsMembershipManager, StreamsGroupHeartbeatRequestManager of Apache Kafka's client.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from ottla.client.membership import JOIN_EPOCH, LEAVE_EPOCH
from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.committing_member import CommittingMember
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.simulator.invariants.streams_group_invariants import (
    REBALANCE_TIMEOUT_MS,
    StreamsGroupInvariants,
    TaskCopy,
    TaskRole,
)
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseTaskIds,
    Subtopology,
    TopicInfo,
    Topology,
)

STATELESS: Final = "0"
STATEFUL: Final = "1"
"""Ids of the subtopologies."""
STATEFUL_TASKS: Final = 2
"""Partitions of the internal topics. That of the source topic may grow, which changelog topics would not survive."""
_STOPS_REVOKING_ONE_IN: Final = 4

Tasks = frozenset[TaskCopy]


def topology(group: str, source: str, *, replicas: int) -> Topology:
    """Return the topology of the application; its internal topics have that many replicas."""
    repartition = TopicInfo(name=f"{group}-repartition", partitions=STATEFUL_TASKS, replication_factor=replicas)
    changelog = TopicInfo(name=f"{group}-changelog", replication_factor=replicas)
    return Topology(
        subtopologies=[
            Subtopology(subtopology_id=STATELESS, source_topics=[source], repartition_sink_topics=[repartition.name]),
            Subtopology(
                subtopology_id=STATEFUL, repartition_source_topics=[repartition], state_changelog_topics=[changelog]
            ),
        ]
    )


class StreamsProcess:
    """A process with members as its threads. It keeps its id when it starts again."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.members: list[StreamsGroupMember] = []

    def crash(self) -> None:
        """End all members, of which the coordinator is not notified, and start new ones."""
        for member in self.members:
            member.crash()


class StreamsGroupMember(CommittingMember):
    """See the module."""

    mischief_one_in = 20
    """By default tasks are handed over too seldom: half of the mutations are not found."""

    def __init__(
        self,
        host: ClientHost,
        invariants: StreamsGroupInvariants,
        offsets: GroupInvariants,
        process: StreamsProcess,
        name: str,
        group: str,
        topic: str,
        *,
        replicas: int,
    ) -> None:
        super().__init__(host, offsets, name, group, topic)
        self._invariants = invariants
        self._process = process
        self._topology = topology(group, topic, replicas=replicas)
        self._epoch = JOIN_EPOCH
        self._assigned: Tasks = frozenset()
        self._tasks: Tasks = frozenset()
        self._reported: Tasks | None = None
        """What the coordinator received last; None if that is not known."""
        self._sent: Tasks | None = None
        """What the last heartbeat listed; None if it listed nothing."""
        self._is_stuck = False
        """Whether it revokes nothing, until it is fenced."""

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self._incarnation}"

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def tasks(self) -> Tasks:
        """The tasks that it owns."""
        return self._tasks

    @property
    def process_id(self) -> str:
        return self._process.process_id

    @property
    def is_settled(self) -> bool:
        """Whether it is a member that owns what it is assigned, and the coordinator knows that."""
        return self._epoch > JOIN_EPOCH and self._tasks == self._assigned == self._reported

    def start(self) -> None:
        """Start as a new member: find the coordinator. The one before it owns its tasks for a session."""
        self._incarnation += 1
        self._abandon_tasks()
        self._find()

    def crash(self) -> None:
        """End, and start again after a while."""
        self._end_instance()
        self._run_later(self.start)

    def finish(self) -> None:
        """Do nothing unusual from now on."""
        self._is_faulty = False

    # --- heartbeats

    def _on_coordinator(self) -> None:
        # After a failure the coordinator may or may not know what the member sent last.
        self._reported = None
        self._beat()

    def _beat(self) -> None:
        request = StreamsGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=self._epoch)
        self._sent = None
        if self._epoch == JOIN_EPOCH:
            request.topology = self._topology
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.process_id = self.process_id
        if self._epoch == JOIN_EPOCH or self._reported != self._tasks:
            self._sent = self._tasks
            request.active_tasks = _task_ids(self._tasks, TaskRole.ACTIVE)
            request.standby_tasks = _task_ids(self._tasks, TaskRole.STANDBY)
            request.warmup_tasks = []
        self._invariants.on_heartbeat_sent(self.member_id, self.process_id, self._sent)
        self._ask(request)

    def _on_response(self, response: PeerResult) -> None:
        if isinstance(response, StreamsGroupHeartbeatResponse):
            self._on_heartbeat(response)
        else:
            super()._on_response(response)

    def _on_heartbeat(self, response: StreamsGroupHeartbeatResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self._on_heartbeat_error(response.error_code)
            return
        self._invariants.on_heartbeat_succeeded(self.member_id)
        if self._sent is not None:
            self._reported = self._sent
        self._epoch = response.member_epoch
        if response.active_tasks is not None and response.standby_tasks is not None:
            active = _task_copies(response.active_tasks, TaskRole.ACTIVE)
            self._assigned = active | _task_copies(response.standby_tasks, TaskRole.STANDBY)
            self._is_stuck = self._is_stuck or self._stops_revoking()
        if self._tasks != self._assigned and not self._is_stuck:
            self._reconcile()
        else:
            self._go_on()

    def _stops_revoking(self) -> bool:
        must_revoke = not self._tasks <= self._assigned
        return must_revoke and self._is_faulty and self._host.random.randrange(_STOPS_REVOKING_ONE_IN) == 0

    def _reconcile(self) -> None:
        """Give up what is not assigned any more, and take the rest with the group's offsets."""
        self._tasks &= self._assigned
        for task in sorted(self._assigned - self._tasks):
            self._invariants.on_assigned(self._epoch, task, self.member_id)
        sources = {each.partition for each in self._assigned if _reads_source(each)}
        self.owned = {partition: offset for partition, offset in self.owned.items() if partition in sources}
        missing = sorted(sources - self.owned.keys())
        if missing:
            self._fetch_offsets(missing)
        else:
            self._own()

    def _own(self) -> None:
        """Let the next heartbeat report what the member owns, and continue; see `ConsumerGroupMember`."""
        self._tasks = self._assigned
        self._go_on()

    def _abandon_tasks(self) -> None:
        self._epoch = JOIN_EPOCH
        self._assigned = self._tasks = frozenset()
        self._reported = None
        self._is_stuck = False
        self.owned = {}

    def _release_all(self) -> None:
        self._invariants.on_released(self.member_id)
        self._abandon_tasks()

    def _do_something_unusual(self) -> None:
        match self._host.random.randrange(3):
            case 0:
                self._pause()
            case 1:
                self._leave()
            case _:
                self._process.crash()

    def _leave(self) -> None:
        request = StreamsGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=LEAVE_EPOCH)
        self._release_all()
        assert self._coordinator is not None, "it has sent heartbeats"
        self._send(self._coordinator, request, self.name, lambda _: self._run_later(self._find))


def _reads_source(task: TaskCopy) -> bool:
    return task.role is TaskRole.ACTIVE and task.subtopology_id == STATELESS


def _task_ids(tasks: Tasks, role: TaskRole) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    wanted = sorted(each for each in tasks if each.role is role)
    return [
        StreamsGroupHeartbeatRequestTaskIds(
            subtopology_id=subtopology_id, partitions=[each.partition for each in group]
        )
        for subtopology_id, group in groupby(wanted, key=lambda each: each.subtopology_id)
    ]


def _task_copies(entries: Iterable[StreamsGroupHeartbeatResponseTaskIds], role: TaskRole) -> Tasks:
    return frozenset(
        TaskCopy(role, entry.subtopology_id, partition) for entry in entries for partition in entry.partitions
    )
