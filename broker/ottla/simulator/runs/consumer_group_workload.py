"""`ConsumerGroupWorkload`: the members of a run's group of the consumer protocol (KIP-848)."""

from ottla.simulator.clients.classic_consumer import ClassicConsumer
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.consumer_group_member import ConsumerGroupMember
from ottla.simulator.clients.migrating_member import MigratingMember
from ottla.simulator.invariants.consumer_group_invariants import ConsumerGroupInvariants
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.runs.plan import Plan
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.random_source import SeededRandom

GROUP = "consumer-group"


class ConsumerGroupWorkload:
    """As many members as the plan says; they read the first topic of the plan."""

    def __init__(self, cluster: Cluster, state_observer: StateObserver, offsets: GroupInvariants, plan: Plan) -> None:
        # Their own host, and random source, keep the rest of the run as it was.
        host = ClientHost(cluster, GROUP, SeededRandom(-3 - plan.seed))
        invariants = ConsumerGroupInvariants(state_observer, cluster.clock, has_epochs=not plan.has_migrating_members)
        self._state_observer = state_observer
        self._topic = plan.topics[0].name
        self._members: list[ConsumerGroupMember | MigratingMember] = []
        for index in range(plan.consumer_group_members):
            member = ConsumerGroupMember(host, invariants, offsets, f"k{index}", GROUP, self._topic)
            if plan.has_migrating_members:
                classic = ClassicConsumer(host, invariants, offsets, f"j{index}", GROUP, self._topic)
                self._members.append(MigratingMember(host, cluster.clock, member, classic))
            else:
                self._members.append(member)

    def start(self) -> None:
        for member in self._members:
            member.start()

    def finish(self) -> None:
        """Make the members do nothing unusual from now on."""
        for member in self._members:
            member.finish()

    def is_settled(self) -> bool:
        """Return whether every partition of the topic has one owner, and every member subscribes; True without any."""
        if not self._members:
            return True
        # Partitions may have been added while the members worked.
        partitions = self._state_observer.image.topics.by_name[self._topic].partitions
        owned = sorted(partition for member in self._members for partition in member.owned)
        return owned == sorted(partitions) and all(member.is_settled for member in self._members)
