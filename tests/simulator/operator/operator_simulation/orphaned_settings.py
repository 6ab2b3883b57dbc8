"""Temporary settings that may be left at the end: only those of removed brokers.

Their rates stay recorded, and are removed when a broker with such an id runs again.

With a rebalance of new brokers in the spec, these have their share at the end; if the spec makes them wait, they have
no replica, and are cordoned.
"""

from collections import Counter
from collections.abc import Iterator, Set

from operator_simulation.scenarios import Scenario
from operator_simulation.store import Store
from ottla.config.resource_type import ConfigResourceType
from ottla.metadata.image import MetadataImage
from ottla.types import NodeId
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.scaling import OnScaleUp
from ottla_operator.planning.cluster.cordons import CORDONED


def orphaned_settings(scenario: Scenario, newcomers: Set[NodeId], image: MetadataImage, store: Store) -> Iterator[str]:
    """Describe settings that are left over, and shares that are wrong; ``newcomers`` that have to wait must do so."""
    remembered = set(map(str, _remembered(store))) - set(map(str, image.cluster.brokers))
    wanted, policy = scenario.wanted, scenario.wanted.scaling.policy.on_scale_up
    waiting = set(map(str, scenario.newcomers)) if policy is OnScaleUp.NONE else set[str]()
    cordoned: set[str] = set()
    for resource, values in image.configs.resources.items():
        is_remembered = resource.type is ConfigResourceType.BROKER and resource.name in remembered
        left = [] if is_remembered else [key for key in values if "throttled" in key]
        if CORDONED in values and resource.name in map(str, wanted.broker_ids):
            cordoned.add(resource.name)
            left += [CORDONED] if resource.name not in waiting else []
        if left:
            yield f"{', '.join(left)} of {resource.name}"
    if taking_part := waiting.intersection(map(str, newcomers)) - cordoned:
        yield f"brokers {sorted(taking_part)} are to wait, and take part"
    if policy is OnScaleUp.REBALANCE:
        held = Counter(
            node
            for topic in image.topics.by_id.values()
            for partition in topic.partitions.values()
            for node in partition.replicas
        )
        counts = [held[node] for node in wanted.broker_ids]
        if max(counts) - min(counts) > 1:
            yield f"replicas {dict(held)}, which are not even"


def _remembered(store: Store) -> Iterator[NodeId]:
    """Yield the brokers with a recorded rate."""
    for document in store.all():
        if document["kind"] == "Cluster":
            yield from Cluster.parse(document).scaling.record.throttled_brokers
