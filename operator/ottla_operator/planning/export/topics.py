"""The manifest of one topic, pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_operator.model.document import Document
from ottla_operator.model.schema import structural_schema
from ottla_operator.planning.cluster.throttling import LISTS
from ottla_operator.planning.export.exported import Destination, Exported

_MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """A topic as its brokers describe it."""

    name: str
    replicas: tuple[int, ...]
    """The number of replicas of each partition, once reassignments in progress have completed."""
    config: Mapping[str, str]
    """Configs set on this topic, without inherited ones."""


def export_topic(topic: TopicSource, name: str, destination: Destination) -> Exported:
    """Return the manifest of ``topic``, an object of the name ``name``."""
    if (reason := _inexpressible(topic)) is not None:
        return Exported(document=None, warnings=(f"topic {topic.name} has no manifest: {reason}",))
    factor, warning = _factor(topic)
    config = {key: value for key, value in sorted(topic.config.items()) if key not in LISTS}
    left_out = [key for key in LISTS if key in topic.config]
    spec: Document = {} if name == topic.name else {"topicName": topic.name}
    spec["partitions"] = len(topic.replicas)
    if factor is not None:
        spec["replicationFactor"] = factor
    if config:
        spec["config"] = config
    return Exported(
        document=destination.manifest("Topic", name, spec),
        hints=tuple(
            f"{key} is left out: it is set while replicas move, and the operator leaves it" for key in left_out
        ),
        warnings=() if warning is None else (f"topic {topic.name} has no replicationFactor here: {warning}",),
    )


def _inexpressible(topic: TopicSource) -> str | None:
    fields = structural_schema("Topic")["properties"]["spec"]["properties"]
    partitions_max, configs_max = fields["partitions"]["maximum"], fields["config"]["maxProperties"]
    if not topic.replicas:
        return "its brokers describe no partition"
    if len(topic.replicas) > partitions_max:
        return f"it has {len(topic.replicas)} partitions, and {partitions_max} are the most"
    if len(topic.config) > configs_max:
        return f"{len(topic.config)} configs are set on it, and {configs_max} are the most"
    return None


def _factor(topic: TopicSource) -> tuple[int | None, str | None]:
    """Return the replication factor; or None, with which the operator does not change it, and why."""
    factor, most = min(topic.replicas), max(topic.replicas)
    if factor != most:
        return None, f"its partitions have {factor} to {most} replicas"
    min_isr = topic.config.get(_MIN_ISR, "")
    if min_isr.isdecimal() and int(min_isr) > factor:
        return None, f"its {_MIN_ISR} is {min_isr}, more than its {factor} replicas"
    return factor, None
