"""Invariants of every change that the operator makes, under all faults: one small class per invariant.

They check the real state (processes, the newest metadata, the quorum's leader), not the operator's view. After another
fault has just disturbed the cluster, the operator cannot know of it yet: then only invariants that need no observation
are strict.
"""

from operator_simulation.calendar import shown
from operator_simulation.host import BROKEN_IMAGE
from operator_simulation.situation import Situation
from operator_simulation.steps import Kind, StepTaken
from ottla.config.resource_type import ConfigResourceType
from ottla.metadata.image import MetadataImage
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import Invariant
from ottla.simulator.world.node import SimulatedNode
from ottla.types import NodeId
from ottla_operator.model.conditions import ready_condition
from ottla_operator.model.document import Document
from ottla_operator.model.maintenance import closed_reason
from ottla_operator.model.rolling_policy import RollingPolicy
from ottla_operator.model.scaling import OnScaleUp
from ottla_operator.planning.cluster.cordons import CORDONED
from ottla_operator.planning.cluster.rolling import ROLL_HALTED
from ottla_operator.ports.nodes import POD_REJECTED


class PlannerInvariant(Invariant):
    """Base of the planner's invariants; they raise `InvariantViolation`."""

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation.state_observer)
        self.situation = situation

    def on_step(self, step: StepTaken) -> None:
        """The operator is about to make a change."""

    def on_node(self, place: SimulatedNode) -> None:
        """An event of a node occurred."""

    def on_stopped(self, place: SimulatedNode) -> None:
        """A process has ended cleanly."""

    def on_status(self, document: Document) -> None:
        """The status of an object was written."""

    def on_end(self) -> None:
        """The spec is reached, and the cluster stays so."""

    def fail(self, what: str) -> InvariantViolation:
        return InvariantViolation(f"{type(self).__name__}: {what}")


class OneNodeAtATime(PlannerInvariant):
    """While a node is down by a step of the planner, or has not caught up again, no other one is stopped.

    Only brokers of its rack may be, if the Cluster allows it and no partition loses its minimum of replicas.
    """

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._down: dict[NodeId, StepTaken] = {}

    def on_step(self, step: StepTaken) -> None:
        situation = self.situation
        if step.kind not in (Kind.RESTART, Kind.STOP) or not situation.serves(step.node_id):
            return
        if not situation.holds(step.node_id) and step.node_id not in situation.voters():
            return  # no partition needs it
        self._remove_whole()
        others = [other for node_id, other in self._down.items() if node_id != step.node_id]
        if others and not self._are_of_one_rack([step, *others]):
            raise self.fail(f"{step}, and {', '.join(map(str, others))} has not caught up again")
        self._down[step.node_id] = step
        if others and situation.is_calm and (broken := situation.too_few_without(self._down.keys())) is not None:
            raise self.fail(f"{', '.join(map(str, self._down.values()))}: {broken}")

    def on_node(self, place: SimulatedNode) -> None:
        if place.node_id in self._down:
            self._remove_whole()

    def on_image(self, before: MetadataImage, now: MetadataImage) -> None:
        if self._down:
            self._remove_whole()

    def _are_of_one_rack(self, steps: list[StepTaken]) -> bool:
        situation, policy = self.situation, self.situation.asked.rolling if self.situation.asked else RollingPolicy()
        racks = {situation.state.rack_of(step.node_id) for step in steps}
        return (
            policy.by_rack
            and len(steps) <= (policy.max_unavailable or len(steps))
            and all(step.kind is Kind.RESTART for step in steps)
            and not any(situation.cluster.nodes[step.node_id].is_controller for step in steps)
            and len(racks) == 1
            and None not in racks
        )

    def _remove_whole(self) -> None:
        for node_id in [each for each in self._down if self._is_back(each)]:
            del self._down[node_id]

    def _is_back(self, node_id: NodeId) -> bool:
        name = self.situation.state.name_of(node_id)
        is_old = name is not None and self.situation.state.is_outdated(name)
        return self.situation.is_whole(node_id) and not is_old


class BrokenVersionHaltsTheRoll(PlannerInvariant):
    """A node that does not start with the new spec is the last one that is restarted, and the status says so.

    The status names the version that works. Always strict, except for the message while no broker may respond.
    """

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._halted = 0
        """The generation of the spec that was last observed to fail."""

    def on_step(self, step: StepTaken) -> None:
        state, asked = self.situation.state, self.situation.asked
        if step.kind is not Kind.RESTART or asked is None or asked.image != BROKEN_IMAGE:
            return
        others = [name for name in state.runs if name != step.what and state.is_broken(name)]
        if others and self.situation.serves(step.node_id):
            raise self.fail(f"{step}, and {', '.join(others)} does not become ready")

    def on_status(self, document: Document) -> None:
        ready, status = ready_condition(document), document["status"]
        if document["kind"] != "Cluster" or ready is None:
            return
        generation = ready["observedGeneration"]
        if ready["reason"] == ROLL_HALTED:
            self._halted = generation
            good = status.get("image")
            if good is None or good == BROKEN_IMAGE or f"image: {good}," not in ready["message"]:
                raise self.fail(f"the rollback image is {good}, and the status says {ready['message']}")
        elif self._halted == generation and self.situation.gets_responses:
            raise self.fail(f"the spec is unchanged, and the status says {ready['reason']}")


class RejectedPodsStopNoNode(PlannerInvariant):
    """No node that serves is restarted after an observation that its new pod, or that of another, is rejected.

    Always strict: while the first node is down without a successor no second one is stopped.
    """

    def on_step(self, step: StepTaken) -> None:
        rejection = self.situation.state.reported_rejection
        if step.kind is Kind.RESTART and rejection and self.situation.serves(step.node_id):
            raise self.fail(f"{step}, and the API server says {rejection}")


class StepsAreRecordedFirst(PlannerInvariant):
    """A restart is named by ``status.operation`` before it happens, for the next operator; always strict."""

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._at: list[str] = []
        """The nodes in the record."""

    def on_status(self, document: Document) -> None:
        if document["kind"] == "Cluster":
            self._at = document["status"].get("operation", {}).get("node", "").split(",")

    def on_step(self, step: StepTaken) -> None:
        if step.kind is Kind.RESTART and step.what not in self._at:
            raise self.fail(f"{step}, and the recorded operation has the nodes {', '.join(self._at) or '-'}")


class NothingIsDoneWhilePaused(PlannerInvariant):
    """A Cluster that is reported as paused is not changed until its next spec."""

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._paused = 0
        """The generation of the spec for which the status last said so."""

    def on_status(self, document: Document) -> None:
        conditions = document["status"].get("conditions", []) if document["kind"] == "Cluster" else []
        for condition in conditions:
            if condition["type"] == "Paused" and condition["status"] == "True":
                self._paused = condition["observedGeneration"]

    def on_step(self, step: StepTaken) -> None:
        asked = self.situation.asked
        is_paused = asked is not None and asked.is_paused and asked.metadata.generation == self._paused
        if is_paused and step.kind not in (Kind.TOPIC, Kind.USER, Kind.SECRET):
            raise self.fail(f"{step}, and the Cluster is paused")


class RestartsInTheirWindow(PlannerInvariant):
    """A ready node is restarted only while a maintenance window is open, if there are any windows."""

    def on_step(self, step: StepTaken) -> None:
        asked = self.situation.asked
        if step.kind is not Kind.RESTART or asked is None or not self.situation.is_ready(step.node_id):
            return
        now = shown(self.situation.cluster.clock.monotonic_ms() / 1_000)
        if (why := closed_reason(asked.maintenance_windows, now)) is not None:
            raise self.fail(f"{step} at {now}; {why}")


class EnoughInSync(PlannerInvariant):
    """No partition falls below its ``min.insync.replicas`` by a step of the planner."""

    def on_step(self, step: StepTaken) -> None:
        situation = self.situation
        if step.kind not in (Kind.RESTART, Kind.STOP) or not situation.is_calm or not situation.serves(step.node_id):
            return
        if (broken := situation.too_few_without({step.node_id})) is not None:
            raise self.fail(f"{step}: {broken}")

    def on_image(self, before: MetadataImage, now: MetadataImage) -> None:
        if not self.situation.is_calm or now.topics is before.topics:
            return
        for topic in now.topics.by_id.values():
            for index, partition in topic.partitions.items():
                needed = self.situation.needed(topic.name, len(partition.replicas))
                old = before.topics.by_id.get(topic.topic_id)
                had = old.partitions.get(index) if old is not None else None
                # A topic that is created while brokers start has only the running ones in sync.
                if had is not None and len(partition.isr) < min(needed, len(had.isr)):
                    raise self.fail(f"{topic.name}-{index} has {partition.isr} in sync, and needs {needed}")


class NoReplicaIsGivenUp(PlannerInvariant):
    """No partition has fewer replicas than its topic ever specifies; always strict."""

    def on_image(self, before: MetadataImage, now: MetadataImage) -> None:
        if now.topics is before.topics:
            return
        for topic in now.topics.by_id.values():
            for index, partition in topic.partitions.items():
                if len(partition.replicas) < self.situation.replicas.get(topic.name, 1):
                    raise self.fail(f"{topic.name}-{index} is on {partition.replicas} only")


class QuorumKeepsItsMajority(PlannerInvariant):
    """No voter is stopped or removed while the others are no majority."""

    def on_step(self, step: StepTaken) -> None:
        if step.kind not in (Kind.RESTART, Kind.STOP, Kind.REMOVE_VOTER) or not self.situation.is_calm:
            return
        voters = self.situation.voters()
        if step.node_id not in voters:
            return
        others = [each for each in voters if each != step.node_id]
        left = [each for each in others if self.situation.runs(each)]
        needed = min(len(voters) // 2 + 1, len(others))
        if len(left) < needed:
            raise self.fail(f"{step}: of the voters {voters} only {left} would run, and {needed} are needed")


class RollInOrder(PlannerInvariant):
    """Controllers are restarted first and the active one last of them, then brokers; each once for one change."""

    def on_step(self, step: StepTaken) -> None:
        state = self.situation.state
        if step.kind is not Kind.RESTART or not self.situation.is_calm or not self.situation.serves(step.node_id):
            return
        nodes = self.situation.cluster.nodes
        waiting = [
            run.node_id
            for name, run in state.runs.items()
            if run.node_id != step.node_id and state.is_outdated(name) and nodes[run.node_id].is_controller
        ]
        is_active = self.situation.cluster.leader_id() == step.node_id
        if waiting and (is_active or not nodes[step.node_id].is_controller):
            what = "leads the quorum" if is_active else "is no controller"
            raise self.fail(f"{step}, which {what}; controllers {waiting} are still to be restarted")
        if not state.is_outdated(step.what):
            raise self.fail(f"{step}, which runs with what is published")


class DrainedFirst(PlannerInvariant):
    """A node that is stopped for good, unregistered, or loses its volumes has no replica and no vote; always strict."""

    def on_step(self, step: StepTaken) -> None:
        if step.kind not in (Kind.STOP, Kind.UNREGISTER, Kind.VOLUMES):
            return
        held = self.situation.holds(step.node_id)
        if step.kind is Kind.VOLUMES and step.node_id in self.situation.state_observer.image.cluster.brokers:
            raise self.fail(f"{step}, and it is registered")
        if step.kind is Kind.VOLUMES and self.situation.runs(step.node_id):
            raise self.fail(f"{step}, and it runs")
        if held:
            raise self.fail(f"{step}, and it holds {', '.join(held)}")
        if step.kind is not Kind.UNREGISTER and step.node_id in self.situation.voters():
            raise self.fail(f"{step}, and it votes")
        if step.kind is Kind.UNREGISTER and self.situation.serves(step.node_id):
            raise self.fail(f"{step}, and it serves")


class WaitingBrokersStayEmpty(PlannerInvariant):
    """New brokers that have to wait for an administrator's moves hold no replica; no test moves any."""

    def on_image(self, before: MetadataImage, now: MetadataImage) -> None:
        asked = self.situation.asked
        if now.topics is before.topics or asked is None or asked.scaling.policy.on_scale_up is not OnScaleUp.NONE:
            return
        held = {node: self.situation.holds(node) for node in sorted(self.situation.newcomers)}
        for node, partitions in held.items():
            if partitions:
                raise self.fail(f"broker {node} has got {', '.join(partitions)}")


class LeadershipMovedAway(PlannerInvariant):
    """A node that is stopped cleanly leads no partition that another broker could lead."""

    def on_stopped(self, place: SimulatedNode) -> None:
        if not self.situation.is_calm:
            return
        led = [
            f"{topic.name}-{index}"
            for topic in self.situation.state_observer.image.topics.by_id.values()
            for index, partition in topic.partitions.items()
            if partition.leader == place.node_id and len(partition.isr) > 1
        ]
        if led:
            raise self.fail(f"node {place.node_id} has stopped, and leads {', '.join(led)}")


class NoUnrequestedEntries(PlannerInvariant):
    """Every access control entry is one of a User."""

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._seen = situation.state_observer.image.acls

    def on_node(self, place: SimulatedNode) -> None:
        now = self.situation.state_observer.image.acls
        if now is self._seen:
            return
        self._seen = now
        more = set(now.by_id.values()) - self.situation.entries
        if more:
            raise self.fail(", ".join(map(str, sorted(more))))


class StatusSaysWhatItWaitsFor(PlannerInvariant):
    """An object that is not ready has a message that names what it waits for."""

    def on_status(self, document: Document) -> None:
        ready = ready_condition(document)
        if ready is None or ready["status"] == "True" or ready["reason"] == "Accepted":
            return
        words = ["node", "broker", "partition", "voter", "controller", "topic", "replicas", "quorum", "user", "next:"]
        words += ["Cluster", "API", "secret", "simulated"]
        if not ready["reason"] or not any(word in ready["message"] for word in words):
            raise self.fail(f"{document['metadata']['name']} is not ready: {ready['reason']!r}: {ready['message']!r}")


class NothingIsLeftBehind(PlannerInvariant):
    """A Ready Cluster without an operation has no throttle left on topics, nor on running brokers.

    Those have no cordon either, unless new ones have to wait. At the end no operation is recorded.
    """

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._operation: Document | None = None

    def on_end(self) -> None:
        if self._operation is not None:
            raise self.fail(f"all is as asked, and status.operation is {self._operation}")

    def on_status(self, document: Document) -> None:
        ready, asked = ready_condition(document), self.situation.asked
        if document["kind"] == "Cluster":
            self._operation = document["status"].get("operation")
        if document["kind"] != "Cluster" or ready is None or (ready["status"], ready["reason"]) != ("True", "Ready"):
            return
        if document["status"].get("operation") is not None:
            # Written before the first step of a reconciliation, with the conditions of the one before.
            return
        image, open_brokers = self.situation.state_observer.image, set[str]()
        # The spec may have changed since.
        is_of_now = asked is not None and asked.metadata.generation == ready["observedGeneration"]
        if asked is not None and is_of_now and asked.scaling.policy.on_scale_up is not OnScaleUp.NONE:
            open_brokers = set(map(str, asked.broker_ids))
        for resource, values in image.configs.resources.items():
            is_gone = resource.type is ConfigResourceType.BROKER and resource.name not in map(
                str, image.cluster.brokers
            )
            shall_go = {CORDONED} if resource.name in open_brokers else set()
            if not is_gone and any("throttled" in key or key in shall_go for key in values):
                raise self.fail(f"{resource.name} has {dict(values)}")


class NothingIsRejected(PlannerInvariant):
    """A spec that can be satisfied is never rejected."""

    def on_status(self, document: Document) -> None:
        for condition in document["status"].get("conditions", []):
            is_due = condition["reason"] == ROLL_HALTED and condition["observedGeneration"] in self.situation.unworkable
            is_due |= condition["reason"] == POD_REJECTED and self.situation.state.rejections > 0
            if condition["type"] == "Stalled" and condition["status"] == "True" and not is_due:
                raise self.fail(f"{document['metadata']['name']}: {condition['reason']}: {condition['message']}")


PLANNER_INVARIANTS: tuple[type[PlannerInvariant], ...] = (
    BrokenVersionHaltsTheRoll,
    OneNodeAtATime,
    RejectedPodsStopNoNode,
    StepsAreRecordedFirst,
    NothingIsDoneWhilePaused,
    RestartsInTheirWindow,
    EnoughInSync,
    NoReplicaIsGivenUp,
    QuorumKeepsItsMajority,
    RollInOrder,
    DrainedFirst,
    WaitingBrokersStayEmpty,
    LeadershipMovedAway,
    NoUnrequestedEntries,
    StatusSaysWhatItWaitsFor,
    NothingIsLeftBehind,
    NothingIsRejected,
)
