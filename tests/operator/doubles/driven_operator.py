"""An operator on a simulated cluster: runs single reconciliations, and stores what the API server would store.

Its process may be killed at any step of the cluster, and at any write of the object's status. The next operator knows
only the object.
"""

import asyncio
import copy
from typing import Any, NamedTuple, Self

import pytest
from kills import KilledError
from simulated_cluster import SimulatedCluster

from ottla_operator.controllers.cluster.reconcile import initial_status_fields, reconcile_cluster
from ottla_operator.controllers.operation_record import OperationRecorder
from ottla_operator.controllers.result import ReconcileResult, status
from ottla_operator.model.broker_configs import dynamic_configs
from ottla_operator.model.conditions import Reached, Readiness, Underway, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.scaling import REBALANCE_ANNOTATION

PASSES_MAX = 120
NOW = "2026-01-01T00:00:00Z"


def pool(name: str, nodes: int, roles: str = "broker controller", first: int = 0) -> Document:
    return {
        "name": name,
        "nodes": nodes,
        "roles": roles.split(),
        "firstNodeId": first,
        "storage": {"size": "1Gi"},
    }


def manifest(*pools: Document, **config: str) -> Document:
    spec = {"pools": list(pools), "config": config}
    return {"apiVersion": "ottla.dev/v1", "kind": "Cluster", "metadata": {"name": "c", "uid": "u"}, "spec": spec}


def scaled(document: Document, **scaling: Any) -> Document:
    """Return the manifest with ``spec.scaling``."""
    return {**document, "spec": {**document["spec"], "scaling": scaling}}


def of_image(image: str, document: Document, **spec: Any) -> Document:
    """Return the manifest with ``spec.image``, and more of the spec."""
    return {**document, "spec": {**document["spec"], "image": image, **spec}}


THREE = manifest(pool("main", 3))
FIVE = manifest(pool("main", 3), pool("more", 2, "broker", 10))
LATEST = manifest(pool("main", 3), **{"log.retention.ms": "5", "a": "1"})
LATEST["spec"]["features"] = {"policy": "AfterUpgrade"}
APART = manifest(pool("quorum", 3, "controller", 20), pool("main", 4, "broker"))


class Change(NamedTuple):
    """From one spec to another, with partitions on the existing brokers."""

    before: Document
    after: Document
    assignments: tuple[tuple[int, ...], ...]


class Operator:
    """Stores the object with its status, as the API server and the state directory do."""

    def __init__(self, world: SimulatedCluster, document: Document) -> None:
        self.world = world
        self.document = copy.deepcopy(document)
        self.readiness: Readiness | None = None
        """Of the last reconciliation that completed."""
        self.results: list[str] = []
        self.writes: list[Document] = []
        """Each written status, in order."""
        self.kill_write_at: int | None = None
        """The number of the write before which the process is killed."""
        self.lost: tuple[int | None, int | None] = (None, None)
        """The step and the write that were not executed, because the process was killed before."""
        self.known: list[Document] = []
        """For each step of the cluster, the status at its start."""

    def fork(self) -> Self:
        """Return a copy of this operator, on a copy of its cluster."""
        other = copy.copy(self)
        other.world = copy.deepcopy(self.world)
        other.document = {**self.document, "metadata": dict(self.document["metadata"])}
        other.results, other.writes, other.known = list(self.results), list(self.writes), list(self.known)
        return other

    def ask(self, document: Document) -> None:
        """Change the spec, as a user does."""
        metadata, spec = self.document["metadata"], copy.deepcopy(document["spec"])
        metadata["generation"] = metadata.get("generation", 1) + (spec != self.document["spec"])
        self.document["spec"] = spec

    def annotate(self, text: str) -> None:
        """Ask for a rebalance, as a user does."""
        self.document["metadata"]["annotations"] = {REBALANCE_ANNOTATION: text}

    def one_pass(self) -> ReconcileResult:
        """Reconcile once, in a process that may be killed; what is stored by then stays."""
        try:
            return self._pass()
        finally:
            self._note_steps()

    def _pass(self) -> ReconcileResult:
        cluster = Cluster.parse(self.document)
        if cluster.known_cluster_id is None:
            facts = asyncio.run(initial_status_fields(cluster, self.world))
            self._write({**self.document.get("status", {}), **facts})
            cluster = Cluster.parse(self.document)

        async def write(facts: Document) -> None:
            self._write({**self.document["status"], **facts})

        journal = OperationRecorder(
            lambda: f"2026-01-01T00:{self.world.seconds // 60:02}:{self.world.seconds % 60:02}Z", write
        )
        result = asyncio.run(
            reconcile_cluster(cluster, self.world, self.world.connect, journal=journal, plans=self.world.plans)
        )
        self._write(status(self.document, result, now=NOW))
        self.readiness = result.readiness
        self.results.append(f"{result.readiness.reason}: {result.readiness.message}")
        return result

    def until_ready(self) -> ReconcileResult:
        """Reconcile, with time in between, until the cluster is as specified or the spec is rejected."""
        for _ in range(PASSES_MAX):
            result = self.survived_pass()
            if self.is_settled and result is not None:
                return result
            self.world.tick()
        pytest.fail(f"not ready after {PASSES_MAX} passes: {self.results[-3:]}")

    def survived_pass(self) -> ReconcileResult | None:
        """Reconcile once; None if the process was killed, which happens once."""
        try:
            return self.one_pass()
        except KilledError:
            step = self.world.kill_at
            self.lost = None if step is None else step[0], self.kill_write_at
            self.world.kill_at = self.kill_write_at = None
            return None

    @property
    def is_settled(self) -> bool:
        """Whether the last reconciliation has nothing to wait for."""
        return self.readiness is not None and not isinstance(self.readiness, Waiting | Underway)

    @property
    def done(self) -> list[str]:
        """The executed steps."""
        return [step for number, step in enumerate(self.world.steps) if number != self.lost[0]]

    @property
    def restarts(self) -> list[str]:
        """The nodes that were restarted, in order, without the name of the cluster."""
        return [step.removeprefix("restart c-") for step in self.done if step.startswith("restart")]

    @property
    def written(self) -> list[Document]:
        """Every status so far."""
        return [status for number, status in enumerate(self.writes) if number != self.lost[1]]

    @property
    def operation(self) -> Document | None:
        """The recorded operation."""
        found: Document | None = self.document.get("status", {}).get("operation")
        return found

    def _write(self, new: Document) -> None:
        if new == self.document.get("status"):
            return
        self._note_steps()
        number = len(self.writes)
        self.writes.append(new)
        if self.kill_write_at == number:
            raise KilledError
        self.document["status"] = new

    def _note_steps(self) -> None:
        self.known += [self.document.get("status", {})] * (len(self.world.steps) - len(self.known))


def begin(world: SimulatedCluster, change: Change) -> Operator:
    """Return an operator whose cluster matches the spec before the change, and has partitions."""
    operator = Operator(world, change.before)
    assert isinstance(operator.until_ready().readiness, Reached)
    world.create_topic("flights", change.assignments)
    for done in (world.steps, operator.known, operator.writes):
        done.clear()
    return operator


def assert_as_asked(operator: Operator, document: Document) -> None:
    """Assert that nodes, registrations, voters and partitions are exactly those of ``document``."""
    world, cluster = operator.world, Cluster.parse(document)
    ids = {number: it for it in cluster.pools for number in it.node_ids}
    running = {node.node_id: node for node in world.nodes.values() if node.is_ready}
    assert running.keys() == ids.keys()
    assert world.registered == {number: False for number, it in ids.items() if it.is_broker}
    assert set(world.voters) == {number for number, it in ids.items() if it.is_controller}
    desired = asyncio.run(world.desired(Cluster.parse(operator.document)))
    assert {node.node_id: node.revision for node in desired.nodes} == {
        number: node.revision for number, node in running.items()
    }
    assert world.configs == dynamic_configs(cluster.config)
    if cluster.features.follows_upgrades:
        assert world.levels == {"metadata.version": 2}
    assert_nothing_is_left(operator)
    for there in world.partitions.values():
        assert set(there.replicas) <= world.registered.keys()
        assert sorted(there.isr) == sorted(there.replicas)
        assert there.leader == there.replicas[0]


def assert_nothing_is_left(operator: Operator) -> None:
    """Assert that no throttle is left, and only cordons that are recorded for later brokers with their ids."""
    world, remembered = operator.world, operator.document["status"]["scaling"]
    assert "throttle" not in remembered
    assert not any(world.topic_configs.values())
    gone = {number for number, configs in world.own_configs.items() if configs}
    assert gone == set(remembered.get("cordoned", ()))
    assert gone.isdisjoint(world.registered)
    assert all(world.own_configs[number] == {"cordoned.log.dirs": "*"} for number in gone)
