"""One reconciliation of a Cluster: observe, plan, execute, observe again; and the resulting status."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest
from places import AddressesOfPlaces

from ottla.errors import ErrorCode, KafkaError
from ottla_operator.controllers.cluster.reconcile import reconcile_cluster
from ottla_operator.controllers.result import ReconcileResult, status
from ottla_operator.controllers.topic.reconcile import DeletedTopic, DesiredTopic, delete_topics, reconcile_topics
from ottla_operator.errors import HostError, QuorumLostError
from ottla_operator.model.conditions import Accepted, Reached, Rejected, Underway, Waiting
from ottla_operator.model.listeners import NODE_PORT, Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.node_listeners import Place
from ottla_operator.model.nodes import DesiredCluster, DesiredNode, desired_cluster
from ottla_operator.model.topic import Topic
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster

Document = dict[str, Any]
Builder = Callable[..., Document]
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


class FakeHost(AddressesOfPlaces):
    """A host in memory: publishing and starting take effect at once by default."""

    def __init__(self) -> None:
        self.diary: list[str] = []
        self.is_published = False
        self.states: dict[str, NodeState] = {}
        self.state_after_start = NodeState.READY
        self.fails: dict[str, Exception] = {}
        self.rejected = ""
        """The entry of the diary whose call is rejected."""
        self.image = ""
        self.version: str | None = None
        """The version that stands for ``image``."""
        self.old_revision: str | None = None
        """The revision of nodes that have not been restarted."""
        self.advertised: dict[str, str | None] = {}
        """The advertised addresses for clients outside, by listener."""
        self.presented: dict[str, frozenset[str]] = {}
        """The names in the presented certificates, by listener."""
        self.storage: Rejected | Underway | None = None

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        place = Place(
            listen_host="",
            client_host="h",
            client_port=9,
            further_client_ports=(10,) * (len(cluster.listeners) - 1),
            controller_port=8,
            admin_port=7,
            log_directory="/d",
            outside=self.advertised,
        )
        desired = desired_cluster(cluster, lambda pool, ordinal, node_id: place, self.image, leaving)
        return replace(desired, version=self.version)

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        if "observe" in self.fails:
            raise self.fails["observe"]
        revision = self.old_revision or desired.nodes[0].revision
        return ObservedCluster(
            outdated=() if self.is_published else ("configuration",),
            nodes={
                name: ObservedNode(name=name, state=state, revision=revision, certificate_names=self.presented)
                for name, state in self.states.items()
            },
            storage=self.storage,
        )

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        self._do("publish", ",".join(outdated))
        self.is_published = True

    async def start_node(self, node: DesiredNode) -> None:
        self._do("start", node.name)
        self.states[node.name] = self.state_after_start

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        self._do("restart", node.name)
        self.old_revision = None

    async def remove_node(self, name: str, uid: str) -> None:
        self._do("stop", name)
        del self.states[name]

    def _do(self, call: str, what: str) -> None:
        self.diary.append(f"{call} {what}")
        if call in self.fails:
            raise self.fails[call]
        if self.diary[-1] == self.rejected:
            raise HostError("NodeExited", "no such key")


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def cluster(cluster_manifest: Builder, brokers: Any) -> Cluster:
    return replace(Cluster.parse(cluster_manifest()), known_cluster_id=brokers.cluster_id)


def topic_pass(topic: Topic, brokers: Any, **options: Any) -> ReconcileResult:
    (outcome,) = asyncio.run(reconcile_topics([DesiredTopic(topic)], brokers, **options)).values()
    return outcome


def deletion_pass(topic: Topic, brokers: Any) -> ReconcileResult:
    (outcome,) = asyncio.run(delete_topics([DeletedTopic(topic)], brokers)).values()
    return outcome


def cluster_pass(cluster: Cluster, host: FakeHost, brokers: Any, **options: Any) -> ReconcileResult:
    return asyncio.run(reconcile_cluster(cluster, host, brokers.connect, **options))


def test_new_topic_is_made_in_one_pass(topic_manifest: Builder, brokers: Any) -> None:
    result = topic_pass(Topic.parse(topic_manifest()), brokers)

    assert result.readiness == Reached("AsSpecified", "6 partitions, replication factor 1")
    assert result.facts == {"topicName": "flights", "topicId": "id-1", "partitions": 6, "replicationFactor": 1}
    assert [str(step) for step in result.done] == ["create topic flights (6 partitions)"]


def test_topic_as_specified_causes_no_change(topic_manifest: Builder, brokers: Any) -> None:
    topic_pass(Topic.parse(topic_manifest()), brokers)
    before = list(brokers.changes)

    result = topic_pass(Topic.parse({**topic_manifest(), "status": {"topicId": "id-1"}}), brokers)

    assert (result.done, brokers.changes) == ((), before)


def test_several_changes_are_validated_before_the_first_is_made(topic_manifest: Builder, brokers: Any) -> None:
    brokers.add_topic("flights", partitions=6)
    brokers.partitions_max = 7

    result = topic_pass(Topic.parse(topic_manifest(partitions=8, config={"retention.ms": "1"})), brokers)

    assert isinstance(result.readiness, Rejected)
    assert result.readiness.message == "could not grow topic flights to 8 partitions: 8 partitions are too many"
    assert brokers.changes == []
    assert result.facts["partitions"] == 6


def test_replication_factor_is_waited_for_until_no_replica_moves(topic_manifest: Builder, brokers: Any) -> None:
    brokers.broker_ids = (0, 1, 2)
    topic_id = brokers.add_topic("flights", partitions=2)
    topic = Topic.parse({**topic_manifest(partitions=2, replicationFactor=3), "status": {"topicId": topic_id}})

    started = topic_pass(topic, brokers)
    assert isinstance(started.readiness, Waiting)
    assert (started.readiness.reason, len(started.done)) == ("Reassigning", 1)
    assert topic_pass(topic, brokers).done == ()
    brokers.finish_moves()

    assert topic_pass(topic, brokers).readiness == Reached("AsSpecified", "2 partitions, replication factor 3")


def test_brokers_that_are_slow_to_show_a_topic_are_waited_for(topic_manifest: Builder, brokers: Any) -> None:
    async def show_none(*_: Any, **__: Any) -> Document:
        return {}

    brokers.create_topics = show_none

    result = topic_pass(Topic.parse(topic_manifest()), brokers)

    assert isinstance(result.readiness, Waiting)
    assert result.readiness.reason == "MetadataNotPropagated"


def test_unreachable_brokers_leave_status_fields_unchanged(topic_manifest: Builder, brokers: Any) -> None:
    brokers.fails["describe_topics"] = KafkaError(ErrorCode.NOT_CONTROLLER)

    result = topic_pass(Topic.parse(topic_manifest()), brokers)

    assert isinstance(result.readiness, Waiting)
    assert result.facts == {}


def test_dry_run_of_a_topic_only_plans(topic_manifest: Builder, brokers: Any) -> None:
    result = topic_pass(Topic.parse(topic_manifest()), brokers, dry_run=True)

    assert [str(step) for step in result.planned] == ["create topic flights (6 partitions)"]
    assert brokers.changes == []


@pytest.mark.parametrize(
    ("policy", "known", "reason", "changes"),
    [
        pytest.param("Delete", "id-1", "Deleted", ["delete flights"], id="deleted"),
        pytest.param("Delete", "id-9", "Retained", [], id="somebody-elses"),
        pytest.param("Retain", "id-1", "Retained", [], id="retained"),
    ],
)
def test_deletion_of_a_topic(
    topic_manifest: Builder, brokers: Any, policy: str, known: str, reason: str, changes: list[str]
) -> None:
    brokers.add_topic("flights")
    topic = Topic.parse({**topic_manifest(deletionPolicy=policy), "status": {"topicId": known}})

    result = deletion_pass(topic, brokers)

    assert isinstance(result.readiness, Reached)
    assert (result.readiness.reason, brokers.changes) == (reason, changes)


def test_topic_that_is_gone_needs_no_deletion(topic_manifest: Builder, brokers: Any) -> None:
    topic = Topic.parse({**topic_manifest(deletionPolicy="Delete"), "status": {"topicId": "id-1"}})

    assert deletion_pass(topic, brokers).readiness == Reached("Gone", "there is no topic flights")


def test_rejected_deletion_is_reported(topic_manifest: Builder, brokers: Any) -> None:
    topic_id = brokers.add_topic("flights")
    brokers.fails["delete_topic"] = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    topic = Topic.parse({**topic_manifest(deletionPolicy="Delete"), "status": {"topicId": topic_id}})

    result = deletion_pass(topic, brokers)

    assert isinstance(result.readiness, Rejected)
    assert result.readiness.reason == "TopicDeletionDisabled"


def test_new_cluster_is_published_started_and_ready(cluster: Cluster, host: FakeHost, brokers: Any) -> None:
    result = cluster_pass(cluster, host, brokers)

    assert host.diary == ["publish configuration", "start demo-main-0"]
    assert result.readiness == Reached("Ready", "1 of 1 nodes are ready at h:9")
    assert result.facts == {
        "clusterId": brokers.cluster_id,
        "bootstrapServers": "h:9",
        "listeners": [{"name": "plaintext", "bootstrapServers": "h:9", "securityProtocol": "PLAINTEXT"}],
        "initialControllers": [],
        "nodes": 1,
        "readyNodes": 1,
        "features": {"metadata.version": 30},
        "scaling": {"brokers": [0]},
        "rebalance": None,
        "operation": None,
    }


def test_cluster_is_not_ready_before_clients_outside_can_verify_it(
    cluster: Cluster, host: FakeHost, brokers: Any
) -> None:
    outside = replace(cluster, listeners=(Listener(name="out", port=9, has_tls=True, type=NODE_PORT),))
    host.advertised, host.presented = {"out": "broker.example:30000"}, {"out": frozenset({"another.example"})}
    brokers.advertised = {0: "OUT://broker.example:30000"}

    before = cluster_pass(outside, host, brokers).readiness
    host.storage = Underway("VolumesGrowing", "a volume grows")
    meanwhile = cluster_pass(outside, host, brokers).readiness
    host.presented = {"out": frozenset({"broker.example"})}
    growing = cluster_pass(outside, host, brokers).readiness
    host.storage = None

    assert isinstance(before, Waiting)
    assert before.reason == "CertificateOutdated"
    assert meanwhile == before, "an obstacle that affects no client comes last"
    assert growing.reason == "VolumesGrowing"
    assert cluster_pass(outside, host, brokers).readiness.reason == "Ready"


@pytest.mark.parametrize(
    ("known", "during"),
    [({"clients": "h:9"}, ["clients"]), ({"gone": "h:9"}, ["more", "clients"])],
    ids=["added", "all-are-new"],
)
def test_clients_are_not_sent_to_a_listener_that_nodes_do_not_have_yet(
    cluster: Cluster, host: FakeHost, brokers: Any, known: dict[str, str], during: list[str]
) -> None:
    listeners = (Listener(name="more", port=9094), Listener(name="clients", port=9095))
    changed = replace(cluster, listeners=listeners, known_addresses=known)
    host.states, host.old_revision = {"demo-main-0": NodeState.READY}, "old"
    host.fails["restart"] = OSError("not now")

    before = cluster_pass(changed, host, brokers).facts["listeners"]
    del host.fails["restart"]
    after = cluster_pass(changed, host, brokers).facts["listeners"]

    assert [it["name"] for it in before] == during
    assert [it["name"] for it in after] == ["more", "clients"]


def test_cluster_that_runs_is_left_alone(cluster: Cluster, host: FakeHost, brokers: Any) -> None:
    cluster_pass(cluster, host, brokers)
    host.diary.clear()

    assert isinstance(cluster_pass(cluster, host, brokers).readiness, Reached)
    assert host.diary == []


def test_node_on_its_way_up_is_waited_for(cluster: Cluster, host: FakeHost, brokers: Any) -> None:
    host.state_after_start = NodeState.STARTING

    result = cluster_pass(cluster, host, brokers)

    assert isinstance(result.readiness, Waiting)
    assert (result.facts["readyNodes"], brokers.addresses) == (0, [])


def test_node_that_becomes_ready_between_two_observations_is_described_in_the_next_pass(
    cluster: Cluster, brokers: Any
) -> None:
    class HostOfStartingNode(FakeHost):
        async def observe(self, desired: DesiredCluster) -> ObservedCluster:
            observed = await super().observe(desired)
            self.states = dict.fromkeys(self.states, NodeState.READY)
            return observed

    host = HostOfStartingNode()
    host.is_published = True
    # A node beyond the spec: the host is observed a second time, with it.
    host.states = {"demo-main-0": NodeState.STARTING, "demo-main-1": NodeState.STARTING}

    assert cluster_pass(cluster, host, brokers).readiness.reason == "NodeNotReady"
    host.states.pop("demo-main-1", None)
    assert cluster_pass(cluster, host, brokers).readiness.reason == "Ready"


def test_first_step_that_fails_ends_the_pass(cluster: Cluster, host: FakeHost, brokers: Any) -> None:
    host.fails["publish"] = HostError("FormatFailed", "no such key")

    result = cluster_pass(cluster, host, brokers)

    assert result.readiness == Rejected("FormatFailed", "could not publish configuration: no such key")
    assert host.diary == ["publish configuration"]


def test_steps_done_concurrently_with_a_failing_one_are_reported(
    cluster: Cluster, host: FakeHost, brokers: Any
) -> None:
    first, *_ = cluster.pools
    host.rejected = "start demo-main-0"

    result = cluster_pass(replace(cluster, pools=(replace(first, nodes=3),)), host, brokers)

    assert result.readiness == Rejected("NodeExited", "could not start node demo-main-0: no such key")
    assert [str(step) for step in result.done[1:]] == ["start node demo-main-1", "start node demo-main-2"]


def test_unreachable_host_is_waited_for(cluster: Cluster, host: FakeHost, brokers: Any) -> None:
    host.fails["observe"] = ConnectionResetError("reset")

    assert isinstance(cluster_pass(cluster, host, brokers).readiness, Waiting)


def test_brokers_of_another_cluster_are_not_taken_for_it(cluster: Cluster, host: FakeHost, brokers: Any) -> None:
    brokers.cluster_id = "another"

    readiness = cluster_pass(cluster, host, brokers).readiness

    assert isinstance(readiness, Rejected)
    assert readiness.reason == "ClusterIdMismatch"


@pytest.mark.parametrize(
    ("broker_ids", "is_ready"), [pytest.param((0,), True, id="joined"), pytest.param((), False, id="no-broker")]
)
def test_cluster_is_ready_when_its_brokers_have_joined(
    cluster: Cluster, host: FakeHost, brokers: Any, broker_ids: tuple[int, ...], is_ready: bool
) -> None:
    brokers.broker_ids = broker_ids

    assert isinstance(cluster_pass(cluster, host, brokers).readiness, Reached) is is_ready


def test_cluster_whose_quorum_has_no_leader_is_degraded(cluster: Cluster, host: FakeHost, brokers: Any) -> None:
    cluster_pass(cluster, host, brokers)
    brokers.fails["observe"] = QuorumLostError("no leader")

    result = cluster_pass(replace(cluster, known_initial_controllers=()), host, brokers)

    assert (type(result.readiness), result.readiness.reason) == (Waiting, "QuorumLost")
    assert result.degradation is not None
    assert result.degradation.reason == "QuorumLost"


def test_status_says_which_version_means_what_all_nodes_run(
    cluster: Cluster, host: FakeHost, brokers: Any, cluster_manifest: Builder
) -> None:
    host.image, host.version = "r:0.2.0", "0.2.0"
    first = status(cluster_manifest(), cluster_pass(cluster, host, brokers), now=NOW)
    assert (first["image"], first["version"]) == ("r:0.2.0", "0.2.0")

    host.image, host.version, host.is_published, host.states = "mine:1", None, False, {}
    second = status({**cluster_manifest(), "status": first}, cluster_pass(cluster, host, brokers), now=LATER)

    assert (second["image"], "version" in second) == ("mine:1", False)


def test_dry_run_of_a_cluster_only_plans(cluster: Cluster, host: FakeHost, brokers: Any) -> None:
    result = cluster_pass(cluster, host, brokers, dry_run=True)

    assert [str(step) for step in result.planned] == ["publish configuration", "start node demo-main-0"]
    assert host.diary == []


def test_dry_run_of_a_cluster_that_is_right_says_so(cluster: Cluster, host: FakeHost, brokers: Any) -> None:
    cluster_pass(cluster, host, brokers)

    result = cluster_pass(cluster, host, brokers, dry_run=True)

    assert isinstance(result.readiness, Reached)
    assert (result.planned, result.facts["readyNodes"]) == ((), 1)


def test_status_of_an_unchanged_world_is_unchanged(topic_manifest: Builder) -> None:
    result = ReconcileResult(Reached("AsSpecified", "fine"), {"partitions": 6})
    document = {**topic_manifest(), "status": status(topic_manifest(), result, now=NOW)}

    assert status(document, result, now=LATER) == document["status"]


def test_status_keeps_what_could_not_be_observed(topic_manifest: Builder) -> None:
    document = {**topic_manifest(), "status": {"partitions": 6, "topicId": "x"}}

    new = status(document, ReconcileResult(Waiting("BrokerUnreachable", "no response"), {}), now=NOW)

    assert (new["partitions"], new["topicId"]) == (6, "x")


def test_record_of_an_operation_that_only_another_version_knows_does_not_stay(
    cluster_manifest: Builder, cluster: Cluster, host: FakeHost, brokers: Any
) -> None:
    document = {**cluster_manifest(), "status": {"operation": {"id": "x-1", "kind": "Teleport", "message": "on it"}}}
    found = replace(Cluster.parse(document), known_cluster_id=brokers.cluster_id)

    assert "operation" not in status(document, cluster_pass(found, host, brokers), now=NOW)


def test_status_names_the_generation_that_was_observed(topic_manifest: Builder) -> None:
    document = topic_manifest()
    document["metadata"]["generation"] = 7

    new = status(document, ReconcileResult(Accepted(), {}), now=NOW)

    assert new["observedGeneration"] == 7
    assert {condition["observedGeneration"] for condition in new["conditions"]} == {7}
