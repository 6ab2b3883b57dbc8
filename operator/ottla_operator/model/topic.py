"""An admitted Topic manifest as a typed value."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Metadata, ObjectKey, referred_cluster

TOPIC_FINALIZER = "ottla.dev/topic"
"""On a Topic whose deletion must delete the topic too; on no other object."""


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
    """Whether the topic goes when its object goes (``deletionPolicy: Delete``)."""
    known_topic_id: str | None
    """The id that the topic had when it was last seen (``status.topicId``); None before it was taken over or made."""
    saw_none: bool = False
    """Whether there was no topic when it was last looked for, so that whatever is there now was made for this one."""
    is_paused: bool = False
    """Nothing is changed (``spec.paused``)."""

    @property
    def claim(self) -> tuple[str, ...]:
        """What no two Topics can have both."""
        return ("Topic", *self.cluster, self.topic_name)

    @classmethod
    def parse(cls, document: Document) -> "Topic":
        spec, metadata, status = document["spec"], Metadata.of(document), document.get("status", {})
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
