"""What the operator has set for a while, and may be there in the end: only what was set on brokers that are gone.

It has to remember their rates, which it takes away when somebody has such an id again.

Where the spec asks for a rebalance of new brokers, they have their share then; where it says that they wait, they have
nothing, and are cordoned.
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
    """Yield, in words, what is left over or not shared out; those of ``newcomers`` that are to wait have to."""
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
    """Yield the brokers on which, as the status says, a rate may still be set."""
    for document in store.all():
        if document["kind"] == "Cluster":
            yield from Cluster.parse(document).scaling.record.throttled_brokers
