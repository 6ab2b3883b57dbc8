"""`PlannerRun`: one scenario from one seed: operators one after the other, their cluster, and its clients.

First the cluster reaches the first spec of the scenario. Then its users apply the change, and the ordered faults
strike: the operator is killed at a step, a node crashes at a step, or all kinds of faults strike for a while. After
every event the invariants of the cluster and those of the planner are checked. Then the spec has to be reached in
bounded time, and stay so: one more operator finds nothing to do.
"""

import logging
from collections.abc import Callable

from operator_simulation.api_faults import ALL, ApiFaults
from operator_simulation.cluster_faults import ClusterFaults
from operator_simulation.differences import differences
from operator_simulation.host import HostState
from operator_simulation.invariants import PLANNER_INVARIANTS, PlannerInvariant
from operator_simulation.operator_logs import failures_in_logs, seeded
from operator_simulation.outcome import Order, Outcome
from operator_simulation.process import OperatorProcess, Surroundings
from operator_simulation.scenarios import CLUSTER, Scenario, Second, Stage
from operator_simulation.situation import Situation
from operator_simulation.steps import Steps, StepsOfAnother, StepTaken, StepTaker
from operator_simulation.store import Store
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.consumer import Consumer
from ottla.simulator.clients.producer import Producer
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.invariants.cluster_invariants import INVARIANTS
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.runs.trace import Trace
from ottla.simulator.world.cluster import Cluster as SimulatedCluster
from ottla.simulator.world.event_loop import SimulatedEventLoop
from ottla.simulator.world.hosts import Hosts
from ottla.simulator.world.node import CLIENT_PORT, SimulatedNode
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.runtime.cluster_ownership import OwnershipClaim

API_SEEDS = 1 << 32
"""Far from all other seeds."""
OPERATOR_HOST, OTHER_OPERATOR_HOST = "operator", "operator-of-others"
FIRST, SECOND = "first/ottla", "second/ottla"
BEGIN_LIMIT_MS = 120_000
CHANGE_LIMIT_MS = 600_000
INHERITED_LIMIT_MS = 1_200_000
"""Of a change in which another operator has to take over first."""
CLIENTS_LIMIT_MS = 120_000
PATIENCE_MS = 60_000
"""How long users wait, under faults, for an intermediate spec: faults may prevent it for longer."""
IDLE_MS = 8_000
"""A new operator lists everything at once, and finds pending work soon."""
TROUBLES_MS, API_FAULTS_MS = 25_000, 45_000
SETTLE_MS = 8_000
"""A session time-out: undetected failures are detected by then."""
APART_MS = (0, 0, 60, 200)
"""By seed, the extra delay of messages between nodes, so that the operator observes nodes that lag."""
CHECK_INTERVAL_MS = 250
AWAY_MS_MAX = 2_000
CHANGE_DELAY_MS_MAX = 12_000
CRASH_DELAY_MS_MAX = 400
REMOVAL_DELAY_MS_MAX = 3_000
PACE_MS = 200

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "leader.imbalance.check.interval.seconds": "3600",
}
"""Of every node: short time-outs, so that much happens in little time; only the operator moves leaders back."""


class PlannerRun:
    """A run of one scenario."""

    def __init__(self, scenario: Scenario, seed: int, order: Order = Order()) -> None:  # noqa: B008 - a value
        self.scenario = scenario
        self.seed = seed
        self.order = order
        self._random = SeededRandom(seed * 4 + 2)
        self._network_chaos = NetworkChaos(SeededRandom(seed * 4 + 1), fastest_ms=1, slowest_ms=3)
        self.cluster = SimulatedCluster(seed * 4, brokers=0, conditions=self._network_chaos, overrides=SETTINGS)
        self.trace = Trace(self.cluster.clock)
        self.cluster.fabric.on_bytes = self.trace.on_bytes
        self.state_observer = StateObserver(self.cluster)
        self.state = HostState(Hosts(self.cluster, self._prepare), racks=scenario.racks)
        self.situation = Situation(
            self.cluster,
            self.state_observer,
            self.state,
            scenario.min_in_sync,
            scenario.replication_factors,
            entries=frozenset(acl for user in scenario.users_asked for acl in user.acls),
            newcomers=scenario.newcomers,
        )
        self.planner_invariants: list[PlannerInvariant] = [it(self.situation) for it in PLANNER_INVARIANTS]
        self.state_observer.invariants = [
            *(invariant(self.state_observer) for invariant in INVARIANTS),
            *self.planner_invariants,
        ]
        self.cluster.before_start = self.state_observer.before_start
        self.cluster.on_event = self._on_event
        self.cluster.on_stopped = self._on_stopped
        self.store = Store(self._on_status, self._on_claim, self._on_gone)
        self.steps = Steps(self.cluster.events.after)
        self.steps.on_step = self._on_step
        self.steps.kill = self.replace_operator
        self.troubles = ClusterFaults(
            self.situation,
            self._network_chaos,
            SeededRandom(seed * 4 + 3),
            operator_host=OPERATOR_HOST,
            kill_operator=self.replace_operator,
            on_crash=self._notify_watches,
            note=lambda what: self.trace.note("troubles", what),
        )
        self.api_faults = ApiFaults(
            self.cluster,
            SeededRandom(seed + API_SEEDS),
            ALL if order.api_faults else scenario.api_faults,
            note=self._on_api_fault,
            on_watches_mended=self._on_watches_mended,
        )
        self._surroundings = Surroundings(self.state, self.store, self.api_faults, SeededRandom(seed).randrange)
        self._failure: BaseException | None = None
        self._seen: dict[int, tuple[bool, bool]] = {}
        self._operators = 0
        self._operator: OperatorProcess | None = None
        self._installation = FIRST if scenario.second is not None else ""
        self._other: OperatorProcess | None = None
        """Of another installation, which has nothing to do as long as the first one exists."""
        self._change_begins = 0
        self._crashes_at: int | None = None
        self._is_crash_due = False
        self._change_ms = 0
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []

    # --- the operator, and its view

    def start_operator(self) -> None:
        assert self._operator is None, "one operator at a time"
        self._operators += 1
        self._operator = self._begin_operator(OPERATOR_HOST, self.steps, self._installation)
        self.trace.note("operator", f"operator {self._operators} begins")

    def _begin_operator(self, host: str, steps: StepTaker, name: str) -> OperatorProcess:
        loop = SimulatedEventLoop(self.cluster, host)
        return OperatorProcess(loop, self._surroundings, steps, name=name)

    def _start_other(self) -> None:
        """Start the operator of another installation, whose steps break an invariant until it is the only one."""

        def reject(step: StepTaken) -> None:
            if self._other is not None:
                self._failure = self._failure or InvariantViolation(f"OneOperator: {SECOND} takes a step: {step}")

        self._other = self._begin_operator(OTHER_OPERATOR_HOST, StepsOfAnother(self.steps, reject), SECOND)

    def _remove_first(self) -> None:
        """Remove the first installation: the other one is the operator from now on."""
        if self._operator is None:  # one that was killed is followed first
            self.cluster.events.after(AWAY_MS_MAX, self._remove_first)
            return
        self._operator.kill()
        self._operator, self._other, self._installation = self._other, None, SECOND
        self.trace.note("operator", f"{FIRST} is removed")

    def _watching(self) -> list[OperatorProcess]:
        """Return the operators with watches."""
        return [it for it in (self._operator, self._other) if it is not None]

    def replace_operator(self) -> None:
        """Kill the operator; a new one starts soon."""
        if self._operator is not None:
            self.trace.note("operator", f"operator {self._operators} is killed")
            self._operator.kill()
            self._operator = None
            self.cluster.events.after(1 + self._random.randrange(AWAY_MS_MAX), self.start_operator)

    def _ask(self, documents: tuple[Document, ...]) -> None:
        for document in documents:
            asked = self.store.put(document)
            if asked["kind"] == "Cluster":
                self.situation.ask(Cluster.parse(asked))
            for operator in self._watching():
                operator.seen(asked)

        for name in self.scenario.gone if documents is self.scenario.after else ():
            leaving = self.store.ask_to_go("User", name)
            for operator in self._watching():
                operator.seen(leaving)

    def _on_gone(self, document: Document) -> None:
        self.trace.note("operator", f"{document['metadata']['name']} is gone")
        for operator in self._watching():
            operator.gone(document)

    def _on_api_fault(self, what: str) -> None:
        self.situation.unheard_ms = self.cluster.clock.monotonic_ms()
        self.trace.note("troubles", what)

    def _on_watches_mended(self) -> None:
        for operator in self._watching():
            operator.catch_up(CLUSTER)

    def _on_claim(self, document: Document) -> None:
        claim = OwnershipClaim.parse(document)
        self.trace.note("operator", f"{claim.name} owns the cluster; challenger: {claim.challenger or '-'}")
        for operator in self._watching():
            operator.seen(document)

    def _on_step(self, step: StepTaken) -> None:
        self.trace.note("operator", str(step))
        number = len(self.steps.taken) - 1
        if number == self._crashes_at:
            self._crashes_at = None
            self._is_crash_due = True
            self.cluster.events.after(self._random.randrange(CRASH_DELAY_MS_MAX), self._crash)
        self._check(lambda invariant: invariant.on_step(step))

    def _crash(self) -> None:
        self._is_crash_due = False
        self.trace.note("troubles", f"crash: {self.troubles.crash()}")

    def _on_status(self, document: Document) -> None:
        ready = next(it for it in document["status"]["conditions"] if it["type"] == "Ready")
        self.trace.note("operator", f"{document['metadata']['name']}: {ready['reason']}: {ready['message']}")
        self._check(lambda invariant: invariant.on_status(document))

    def _check(self, check: Callable[[PlannerInvariant], object]) -> None:
        """Check every invariant. The caller may be the operator, which would catch the exception: so it is kept."""
        for invariant in self.planner_invariants:
            try:
                check(invariant)
            except InvariantViolation as violation:
                self._failure = self._failure or violation

    # --- the nodes

    def _prepare(self, place: SimulatedNode) -> None:
        place.sync_ms = 1
        apart_ms = APART_MS[self.seed % len(APART_MS)]
        for other in self.cluster.by_host:
            if other != place.host:
                self._network_chaos.slow(place.host, other, apart_ms)
                self._network_chaos.slow(other, place.host, apart_ms)

    def _on_event(self, place: SimulatedNode) -> None:
        self.state_observer.observe_node(place)
        self._notify_watches(place)
        for invariant in self.planner_invariants:
            invariant.on_node(place)

    def _on_stopped(self, place: SimulatedNode, reason: str | None) -> None:
        self.trace.note(place.host, f"has stopped: {reason or 'in order'}")
        self._notify_watches(place)
        for invariant in self.planner_invariants if reason is None else ():
            invariant.on_stopped(place)

    def _notify_watches(self, place: SimulatedNode) -> None:
        """Notify the operator's watch of nodes that started or ended."""
        now = (place.process is not None, place.is_ready)
        if self._seen.get(place.node_id) != now:
            self._seen[place.node_id] = now
            for operator in self._watching():
                operator.child_seen(CLUSTER)

    def _on_failure(self, failure: BaseException) -> None:
        self._failure = self._failure or failure

    # --- running

    def run(self) -> Outcome:
        """Run the scenario; return how it ended."""
        failure: str | None = None
        with (
            self.trace.of_logs(lambda: self.cluster.now_at or "simulator"),
            failures_in_logs(self._on_failure),
            seeded(self.seed),
        ):
            try:
                self._begin()
                self._change()
                self._end()
            except InvariantViolation as violation:
                # Effects of a broken invariant may appear before the operator stops.
                failure = str(self._failure or violation)
            except Exception as error:
                failure = f"NothingRaises: {self.cluster.now_at}: {type(error).__name__}: {error}"
                logging.getLogger("ottla").debug("the simulation ends", exc_info=True)
                self.trace.note_error("simulator", error)
            finally:
                for operator in self._watching():
                    operator.kill()
                self.api_faults.close()
        return Outcome(
            scenario=self.scenario.name,
            seed=self.seed,
            order=self.order,
            failure=failure,
            steps=tuple(self.steps.taken[self._change_begins :]),
            simulated_ms=self.cluster.clock.monotonic_ms(),
            change_ms=self._change_ms,
            digest=self.trace.digest,
            acknowledged=sum(producer.acknowledged_count for producer in self._producers),
            operators=self._operators,
            troubles=self.troubles.counts | self.api_faults.counts,
            last_events=self.trace.last(),
        )

    def _begin(self) -> None:
        self.start_operator()
        if self.scenario.before:
            self._ask(self.scenario.before)
            self._until("the first objects are ready", self.store.is_settled, BEGIN_LIMIT_MS)
            if self.scenario.second is not None:
                self._start_other()
            self._start_clients()

    def _start_clients(self) -> None:
        bootstrap = [
            Endpoint(place.host, CLIENT_PORT) for place in self.cluster.nodes.values() if "broker" in place.roles
        ]
        host = ClientHost(self.cluster, "clients", self._random, bootstrap=bootstrap)
        for topic in self.scenario.topics:
            name = topic.topic_name
            self._producers.append(
                Producer(host, self.state_observer, f"{name}p", name, acks=-1, is_idempotent=True, pace_ms=PACE_MS)
            )
            self._consumers.append(Consumer(host, self.state_observer, f"{name}c", name))
        for producer in self._producers:
            producer.start()
        for consumer in self._consumers:
            consumer.start()
        self._pass(2_000)

    def _change(self) -> None:
        self._change_begins = len(self.steps.taken)
        if self.order.kill_at is not None:
            number, moment = self.order.kill_at
            self.steps.kill_at = (self._change_begins + number, moment)
        if self.order.crash_at is not None:
            self._crashes_at = self._change_begins + self.order.crash_at
        if self.order.troubles:
            self.troubles.start()
            self._pass(self._random.randrange(CHANGE_DELAY_MS_MAX))
            self._change_begins = len(self.steps.taken)
        self.api_faults.start()
        began_ms = self.cluster.clock.monotonic_ms()
        for stage in self.scenario.on_the_way:
            self._go_through(stage)
        self.trace.note("simulator", "the users ask for something else")
        self._ask(self.scenario.after)
        if self.scenario.second is Second.HEIR:
            self.cluster.events.after(1 + self._random.randrange(REMOVAL_DELAY_MS_MAX), self._remove_first)
        if self._strikes:
            self._pass(API_FAULTS_MS if self.api_faults.strikes else TROUBLES_MS)
            self.trace.note("simulator", "troubles stop")
            self.troubles.stop()
            self.api_faults.stop()
            self._pass(SETTLE_MS)
        limit_ms = INHERITED_LIMIT_MS if self.scenario.second is Second.HEIR else CHANGE_LIMIT_MS
        self._until("everything is as asked", self._is_as_asked, limit_ms)
        self._change_ms = self.cluster.clock.monotonic_ms() - began_ms

    @property
    def _strikes(self) -> bool:
        """Tell whether faults strike repeatedly."""
        return self.order.troubles or self.api_faults.strikes

    def _go_through(self, stage: Stage) -> None:
        self.trace.note("simulator", "the users ask for something that will not stay")
        begins, gives_up_ms = len(self.steps.taken), self.cluster.clock.monotonic_ms() + PATIENCE_MS
        self._ask(stage.asked)
        until = stage.until

        def is_reached() -> bool:
            if isinstance(until, str):
                return self.store.cluster_says(until)
            return any(step.kind is until for step in self.steps.taken[begins:])

        def is_over() -> bool:
            return is_reached() or (self._strikes and self.cluster.clock.monotonic_ms() >= gives_up_ms)

        self._until(f"the intermediate spec has reached {until}", is_over, CHANGE_LIMIT_MS)
        if not is_reached():
            # Brokers that have to wait are cordoned only while they run, so wait for the running ones.
            self.situation.newcomers = frozenset()
        self._pass(stage.hold_ms)

    def _end(self) -> None:
        """All clients finish, and neither this operator nor the next finds anything to do."""
        for producer in self._producers:
            producer.finish()
            producer.send_to_all()
        self._until(
            "every producer is rid of what it had",
            lambda: all(producer.is_done for producer in self._producers),
            CLIENTS_LIMIT_MS,
        )
        self._until(
            "every consumer has read all",
            lambda: all(consumer.is_done for consumer in self._consumers),
            CLIENTS_LIMIT_MS,
        )
        # An operator that was killed at the very last step has a successor, which finds nothing to do either.
        self._until("an operator is there", lambda: self._operator is not None, CLIENTS_LIMIT_MS)
        count = len(self.steps.taken)
        self.replace_operator()
        self._pass(IDLE_MS)
        if len(self.steps.taken) > count or not self._is_as_asked():
            more = "; ".join(map(str, self.steps.taken[count:])) or self._differences()
            raise InvariantViolation(f"NothingIsLeftToDo: all was as asked, and one more operator did: {more}")
        for invariant in self.planner_invariants:
            invariant.on_end()

    def _is_as_asked(self) -> bool:
        return self.store.is_settled() and not self._is_crash_due and not self._differences()

    def _differences(self) -> str:
        return differences(self.scenario, self.situation, self.store)

    def _until(self, what: str, condition: Callable[[], bool], limit_ms: int) -> None:
        """Let time pass until ``condition`` holds.

        Raises:
            InvariantViolation: it does not in time, or an invariant was broken.
        """
        end_ms = self.cluster.clock.monotonic_ms() + limit_ms
        while not condition():
            if self.cluster.clock.monotonic_ms() >= end_ms:
                raise InvariantViolation(
                    f"PlanEnds: not within {limit_ms} ms: {what}; {self.store.describe()}; {self._differences()}; "
                    f"{self.cluster.describe()}"
                )
            self._pass(CHECK_INTERVAL_MS)

    def _pass(self, milliseconds: int) -> None:
        self.cluster.run(milliseconds)
        failures = (operator.failure() for operator in self._watching())
        failure = self._failure or next((it for it in failures if it is not None), None)
        if failure is not None:
            raise failure
