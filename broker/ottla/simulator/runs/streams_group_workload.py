"""`StreamsGroupWorkload`: the processes and members of a run's streams group (KIP-1071)."""

from collections import Counter

from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.streams_group_member import (
    STATEFUL,
    STATEFUL_TASKS,
    STATELESS,
    StreamsGroupMember,
    StreamsProcess,
)
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.invariants.streams_group_invariants import StreamsGroupInvariants, TaskCopy, TaskRole
from ottla.simulator.runs.plan import Plan
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.random_source import SeededRandom

GROUP = "streams-group"


class StreamsGroupWorkload:
    """As many members in each process as the plan says; they process the first topic of the plan."""

    def __init__(self, cluster: Cluster, state_observer: StateObserver, offsets: GroupInvariants, plan: Plan) -> None:
        # Their own host, and random source, keep the rest of the run as it was.
        host = ClientHost(cluster, GROUP, SeededRandom(-5 - plan.seed))
        invariants = StreamsGroupInvariants(state_observer, cluster.clock)
        self._state_observer = state_observer
        topic = plan.topics[0]
        self._topic = topic.name
        self._processes = [StreamsProcess(f"process{index}") for index in range(len(plan.streams_group_processes))]
        for process, members in zip(self._processes, plan.streams_group_processes, strict=True):
            process.members = [
                StreamsGroupMember(
                    host,
                    invariants,
                    offsets,
                    process,
                    f"{process.process_id}-{index}",
                    GROUP,
                    topic.name,
                    replicas=topic.replicas,
                )
                for index in range(members)
            ]
        self._members = [member for process in self._processes for member in process.members]

    def start(self) -> None:
        for member in self._members:
            member.start()

    def finish(self) -> None:
        """Make the members do nothing unusual from now on."""
        for member in self._members:
            member.finish()

    def is_settled(self) -> bool:
        """Return whether every task is active once, with a standby if it has state; True without members."""
        if not self._members:
            return True
        owned = Counter(task for member in self._members for task in member.tasks)
        return owned == self._wanted_tasks() and all(member.is_settled for member in self._members)

    def _wanted_tasks(self) -> Counter[TaskCopy]:
        # Partitions may have been added while the members worked.
        partitions = self._state_observer.image.topics.by_name[self._topic].partitions
        stateful = range(STATEFUL_TASKS)
        wanted = Counter(TaskCopy(TaskRole.ACTIVE, STATELESS, partition) for partition in partitions)
        wanted.update(TaskCopy(TaskRole.ACTIVE, STATEFUL, partition) for partition in stateful)
        if len(self._processes) > 1:
            wanted.update(TaskCopy(TaskRole.STANDBY, STATEFUL, partition) for partition in stateful)
        return wanted
