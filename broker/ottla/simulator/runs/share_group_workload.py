"""`ShareGroupWorkload`: the members of a run's share group (KIP-932)."""

from ottla.config.resource_type import ConfigResourceType
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.share_group_member import ShareGroupMember
from ottla.simulator.invariants.share_group_invariants import ShareGroupInvariants
from ottla.simulator.invariants.share_locks import ShareLocks
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.runs.plan import Plan
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import TopicIdPartition
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

GROUP = "share-group"
_RETRY_MS = 500


class ShareGroupWorkload:
    """The members of the plan's share group, which read the first topic of the plan from its start."""

    def __init__(self, cluster: Cluster, state_observer: StateObserver, plan: Plan) -> None:
        # Their own host, and random source, keep the rest of the run as it was.
        self._host = ClientHost(cluster, GROUP, SeededRandom(-4 - plan.seed))
        self._invariants = ShareGroupInvariants(state_observer, cluster.clock)
        self._state_observer = state_observer
        self._topic = plan.topics[0].name
        locks = ShareLocks(cluster)
        self._members = [
            ShareGroupMember(self._host, self._invariants, locks, f"s{index}", GROUP, self._topic)
            for index in range(plan.share_group_members)
        ]

    def start(self) -> None:
        """Set ``share.auto.offset.reset`` to earliest, then start the members."""
        if not self._members:
            return
        config = AlterableConfig(name="share.auto.offset.reset", value="earliest")
        resource = AlterConfigsResource(resource_type=ConfigResourceType.GROUP, resource_name=GROUP, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        self._host.ask(self._host.any_node(), request, f"{GROUP}-config", self._on_configured)

    def _on_configured(self, response: PeerResult) -> None:
        if isinstance(response, IncrementalAlterConfigsResponse) and not any(
            each.error_code for each in response.responses
        ):
            for member in self._members:
                member.start()
        else:
            self._host.after(_RETRY_MS, self.start)

    def finish(self) -> None:
        """Make the members do nothing unusual from now on."""
        for member in self._members:
            member.finish()

    def is_settled(self) -> bool:
        """Return whether every committed record of the topic is finished, or was tried often enough."""
        if not self._members:
            return True
        topic = self._state_observer.image.topics.by_name[self._topic]
        partitions = [TopicIdPartition(topic.topic_id, number) for number in topic.partitions]
        return not any(self._invariants.unfinished(GROUP, each) for each in partitions)
