"""Random faults in random order: logs agree below the high watermark, and acknowledged records stay.

Processes are killed, hosts lose power, connections break, brokers learn of elections late. The controller elects only
from the in-sync set, and removes replicas that may have lost unsynced records, as long as another replica is in it.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ottla.replication.config import ReplicationConfig

NODES = (1, 2, 3)
nodes = st.sampled_from(NODES)


class Replication(RuleBasedStateMachine):
    """Three replicas of one partition."""

    new_cluster: Callable[..., Any]

    def __init__(self) -> None:
        super().__init__()
        # One batch per fetch: a follower that is behind needs a while, in which faults occur.
        self.cluster = type(self).new_cluster(3, replication=ReplicationConfig(fetch_response_max_bytes=1))
        self.cluster.controller.create_topic("t", NODES)
        self.cluster.settle()
        self.committed: list[tuple[int, bytes]] = []
        self.produced = 0
        self.waiting: list[tuple[bytes, list[Any]]] = []
        self.acknowledged: dict[int, bytes] = {}
        self.high_watermarks: dict[tuple[int, int], int] = {}
        self.lost_power: set[int] = set()

    @property
    def registration(self) -> Any:
        return self.cluster.controller.partition()

    def is_alive(self, node_id: int) -> bool:
        return self.cluster[node_id].is_up and not self.cluster.controller.image.cluster.brokers[node_id].is_fenced

    # --- clients

    @rule(acks=st.sampled_from([-1, -1, 1]), count=st.integers(1, 3))
    def produce_to_the_leader(self, acks: int, count: int) -> None:
        self.produce(max(1, self.registration.leader), acks, count)

    @rule(node_id=nodes, acks=st.sampled_from([-1, -1, 1]), count=st.integers(1, 3))
    def produce(self, node_id: int, acks: int, count: int) -> None:
        broker = self.cluster[node_id]
        if not broker.is_up or not broker.partition().is_leader:
            return
        for _ in range(count):
            self.produced += 1
            value = b"%d" % self.produced
            responses = broker.produce(value, acks=acks, timeout_ms=600_000)
            if acks == -1:
                self.waiting.append((value, responses))

    # --- the wire and the clock

    @rule(count=st.integers(1, 12))
    def carry(self, count: int) -> None:
        self.cluster.pump(count)

    @rule(milliseconds=st.sampled_from([1, 50, 500, 1_000, 20_000, 46_000]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.cluster.clock.advance(milliseconds)
        self.cluster.pump(20)

    @rule(one=nodes, other=nodes)
    def cut(self, one: int, other: int) -> None:
        if one != other:
            self.cluster.cut(one, other)

    @rule()
    def heal(self) -> None:
        self.cluster.heal()

    # --- the controller

    @rule(node_id=nodes, back=st.integers(0, 2))
    def learn(self, node_id: int, back: int) -> None:
        if self.cluster[node_id].is_up:
            self.cluster[node_id].learn(len(self.cluster.controller.records) - back)

    @rule()
    def settle(self) -> None:
        self.cluster.settle()

    @rule(power=st.booleans())
    def fail_over(self, power: bool) -> None:
        """The leader dies before all of its records are replicated, and the next one appends some of its own."""
        leader = self.registration.leader
        if leader == -1 or not self.cluster[leader].is_up:
            return
        self.produce(leader, 1, 2)
        self.cluster.pump(3)
        if power:
            self.cut_the_power(leader)
        else:
            self.kill(leader)
        self.notice_the_dead()
        self.cluster.settle()
        self.produce_to_the_leader(-1, 1)
        self.cluster.pump(4)

    @rule()
    def notice_the_dead(self) -> None:
        for node_id in NODES:
            if not self.cluster[node_id].is_up and self.is_alive_for_controller(node_id):
                self.cluster.controller.fence(node_id)
            if not self.cluster[node_id].is_up:
                self.take_out(node_id)
        self.elect()

    @rule()
    def prefer_another_leader(self) -> None:
        others = [each for each in self.registration.isr if each != self.registration.leader and self.is_alive(each)]
        if others:
            self.cluster.controller.change(leader=others[0])

    def is_alive_for_controller(self, node_id: int) -> bool:
        return not self.cluster.controller.image.cluster.brokers[node_id].is_fenced

    def take_out(self, node_id: int) -> None:
        isr = self.registration.isr
        # Eligible leader replicas (KIP-966): the last one that has everything is never removed.
        if node_id in isr and set(isr) - {node_id} - self.lost_power:
            changes: dict[str, Any] = {"isr": [each for each in isr if each != node_id]}
            if self.registration.leader == node_id:
                changes["leader"] = -1
            self.cluster.controller.change(**changes)
        elif self.registration.leader == node_id:
            self.cluster.controller.change(leader=-1)

    def elect(self) -> None:
        leader = self.registration.leader
        if leader != -1 and self.is_alive(leader):
            return
        for replica in self.registration.replicas:
            if replica in self.registration.isr and self.is_alive(replica):
                self.cluster.controller.change(leader=replica)
                return

    # --- faults

    @rule(node_id=nodes)
    def kill(self, node_id: int) -> None:
        if self.cluster[node_id].is_up:
            self.cluster.stop(node_id)

    @rule(node_id=nodes)
    @precondition(lambda self: len(self.registration.isr) > 1)
    def cut_the_power(self, node_id: int) -> None:
        """Only while another replica in the set has everything, and is not about to lose it as well."""
        others = set(self.registration.isr) - {node_id} - self.lost_power
        if self.cluster[node_id].is_up and others:
            self.cluster.stop(node_id, power=True)
            self.lost_power.add(node_id)

    @rule(node_id=nodes)
    def start(self, node_id: int) -> None:
        if self.cluster[node_id].is_up:
            return
        if node_id in self.lost_power or node_id == self.registration.leader:
            self.take_out(node_id)
            self.elect()
        self.lost_power.discard(node_id)
        self.cluster.start(node_id)
        self.cluster[node_id].learn()
        self.elect()

    # --- invariants

    @invariant()
    def logs_agree_below_the_high_watermark(self) -> None:
        for broker in self.cluster.up():
            partition = broker.replicas.find("t", 0)
            if partition is None:
                continue
            high_watermark = partition.log.high_watermark
            life = (broker.node_id, broker.lives)
            assert high_watermark >= self.high_watermarks.get(life, 0), "a high watermark went back"
            self.high_watermarks[life] = high_watermark
            entries = [
                (batch.leader_epoch, value) for batch, value in zip(broker.batches(), broker.values(), strict=True)
            ][:high_watermark]
            known = self.committed[:high_watermark]
            assert entries[: len(known)] == known, f"node {broker.node_id} differs below its high watermark"
            self.committed += entries[len(self.committed) :]

    @invariant()
    def what_was_acknowledged_is_committed(self) -> None:
        for value, responses in list(self.waiting):
            if responses:
                self.waiting.remove((value, responses))
                if responses[0].error_code == 0:
                    self.acknowledged[responses[0].base_offset] = value
        for offset, value in self.acknowledged.items():
            # While the only replica that knew the commit is down, it cannot be checked.
            if offset < len(self.committed):
                assert self.committed[offset][1] == value, f"record {offset} was acknowledged and is lost"

    def fail_over_at_random(self, random: Random) -> Callable[[], None]:
        return lambda: self.fail_over(power=random.randrange(2) == 1)

    def teardown(self) -> None:
        self.cluster.heal()
        for node_id in NODES:
            self.start(node_id)
            self.cluster.controller.unfence(node_id)
        self.elect()
        self.cluster.run(100_000)
        self.logs_agree_below_the_high_watermark()
        self.what_was_acknowledged_is_committed()
        assert all(offset < len(self.committed) for offset in self.acknowledged), "an acknowledged record is lost"
        leader = self.cluster[self.registration.leader]
        assert set(self.registration.isr) == set(NODES), "not every replica is in sync again"
        assert leader.partition().log.high_watermark == leader.partition().log.log_end_offset
        for node_id in NODES:
            assert self.cluster[node_id].log_bytes() == leader.log_bytes(), f"node {node_id} differs from its leader"


def test_logs_agree_and_acknowledged_records_survive_any_fault(new_cluster: Callable[..., Any]) -> None:
    Replication.new_cluster = staticmethod(new_cluster)
    run_state_machine_as_test(
        Replication,
        settings=settings(
            max_examples=60,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


def run_life(model: Replication, random: Any, steps: int) -> None:
    """Take ``steps`` at random, with probabilities of a long run with many faults."""
    moves: list[tuple[int, Callable[[], object]]] = [
        (30, lambda: model.produce_to_the_leader(-1 if random.randrange(3) else 1, 1 + random.randrange(3))),
        (5, lambda: model.produce(random.choice(NODES), 1, 1)),
        (30, lambda: model.carry(1 + random.randrange(12))),
        (10, lambda: model.let_time_pass(random.choice([1, 50, 500, 1_000, 20_000, 46_000]))),
        (4, lambda: model.cut(random.choice(NODES), random.choice(NODES))),
        (6, model.heal),
        (20, lambda: model.learn(random.choice(NODES), random.randrange(3))),
        (6, model.notice_the_dead),
        (4, model.prefer_another_leader),
        (3, model.fail_over_at_random(random)),
        (2, lambda: model.kill(random.choice(NODES))),
        (2, lambda: model.cut_the_power(random.choice(NODES)) if len(model.registration.isr) > 1 else None),
        (12, lambda: model.start(random.choice(NODES))),
        (3, model.settle),
    ]
    total = sum(weight for weight, _ in moves)
    for _ in range(steps):
        at = random.randrange(total)
        for weight, move in moves:
            at -= weight
            if at < 0:
                move()
                break
        model.logs_agree_below_the_high_watermark()
        model.what_was_acknowledged_is_committed()
    model.teardown()


@pytest.mark.parametrize("seed", range(25))
def test_long_run_with_many_faults_loses_no_records(new_cluster: Callable[..., Any], seed: int) -> None:
    Replication.new_cluster = staticmethod(new_cluster)
    run_life(Replication(), Random(seed), 250)


def test_response_to_an_ended_process_is_not_delivered_to_its_successor(new_cluster: Callable[..., Any]) -> None:
    Replication.new_cluster = staticmethod(new_cluster)
    model = Replication()
    model.kill(2)
    model.start(2)
    model.produce(1, -1, 1)
    model.prefer_another_leader()
    model.teardown()

    assert len({model.cluster[node_id].log_bytes() for node_id in NODES}) == 1
