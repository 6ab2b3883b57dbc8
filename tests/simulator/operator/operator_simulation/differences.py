"""Differences between a simulated cluster and the last spec of its scenario, for people."""

from operator_simulation.host import place_of
from operator_simulation.orphaned_settings import orphaned_settings
from operator_simulation.scenarios import Scenario
from operator_simulation.situation import Situation
from operator_simulation.store import Store
from operator_simulation.users import user_differences
from ottla_operator.model.nodes import desired_cluster


def differences(scenario: Scenario, situation: Situation, store: Store) -> str:
    """Describe the differences from the spec; empty if there are none."""
    wanted = scenario.wanted
    ids = {number: it for it in wanted.pools for number in it.node_ids}
    ready = {
        number for number, place in situation.cluster.nodes.items() if place.process is not None and place.is_ready
    }
    registered = {
        number for number, broker in situation.state_observer.image.cluster.brokers.items() if not broker.is_fenced
    } | {-1 for broker in situation.state_observer.image.cluster.brokers.values() if broker.is_fenced}
    desired = desired_cluster(wanted, place_of, wanted.image or "")
    said = [
        f"{what} {sorted(there)} instead of {sorted(asked)}"
        for what, there, asked in (
            ("ready nodes", ready, set(ids)),
            ("brokers", registered, {number for number, it in ids.items() if it.is_broker}),
            ("voters", set(situation.voters()), {number for number, it in ids.items() if it.is_controller}),
            ("running", {n for n, it in situation.cluster.nodes.items() if it.process is not None}, set(ids)),
        )
        if there != asked
    ]
    said += [
        f"node {node.name} has old properties"
        for node in desired.nodes
        if node.name in situation.state.runs and situation.state.runs[node.name].revision != node.revision
    ]
    return "; ".join(
        (
            *said,
            *_misplaced(scenario, situation, set(ids)),
            *user_differences(scenario, situation.state_observer.image, store),
            *orphaned_settings(scenario, situation.newcomers, situation.state_observer.image, store),
        )
    )


def _misplaced(scenario: Scenario, situation: Situation, node_ids: set[int]) -> list[str]:
    """Return the partitions whose replicas or leader are misplaced."""
    factors = scenario.factors_wanted
    return [
        f"{topic.name}-{index}: leader {it.leader}, replicas {it.replicas}, in sync {it.isr}"
        for topic in situation.state_observer.image.topics.by_id.values()
        for index, it in topic.partitions.items()
        if sorted(it.isr) != sorted(it.replicas)
        or it.leader != it.replicas[0]
        or not set(it.replicas) <= node_ids
        or len(it.replicas) != factors.get(topic.name, len(it.replicas))
    ]
