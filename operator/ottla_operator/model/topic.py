"""An admitted Topic manifest as a typed value."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Metadata, ObjectKey, referred_cluster

TOPIC_FINALIZER = "ottla.dev/topic"
"""On a Topic whose deletion must delete the topic as well; on no other object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A Topic manifest, admitted."""

    metadata: Metadata
    cluster: ObjectKey
    topic_name: str
    partitions: int
    replication_factor: int | None
    """None: the brokers' ``default.replication.factor``."""
    config: Mapping[str, str]
    deletes_topic: bool
    """Whether the topic is deleted with its object (``deletionPolicy: Delete``)."""
    known_topic_id: str | None
    """The topic id that was last observed (``status.topicId``); None before the topic was adopted or created."""
    saw_none: bool = False
    """Whether the last reconciliation found no topic, so that an existing one was created for this object."""
    is_paused: bool = False
    """Nothing is changed (``spec.paused``)."""

    @property
    def claim(self) -> tuple[str, ...]:
        """The key that no two Topics may share."""
        return ("Topic", *self.cluster, self.topic_name)

    @classmethod
    def parse(cls, document: Document) -> "Topic":
        spec, metadata, status = document["spec"], Metadata.parse(document), document.get("status", {})
        return cls(
            metadata=metadata,
            cluster=referred_cluster(document),
            topic_name=spec.get("topicName", metadata.name),
            partitions=spec["partitions"],
            replication_factor=spec.get("replicationFactor"),
            config=dict(sorted(spec.get("config", {}).items())),
            deletes_topic=spec.get("deletionPolicy") == "Delete",
            known_topic_id=status.get("topicId"),
            saw_none=status.get("partitions") == 0,
            is_paused=spec.get("paused", False),
        )
