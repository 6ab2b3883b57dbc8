"""Two Topic objects, one topic: the older object has it, and both hosts agree which one that is."""

from collections.abc import Iterable

from ottla_operator.model.manifest import ObjectKey, Topic


def older_claim(topic: Topic, others: Iterable[Topic]) -> ObjectKey | None:
    """Return who else claims the topic of ``topic`` with an older right; None when nobody does.

    Age decides, and among objects of the same second their name; ``topic`` itself may be among ``others``. A claim
    ends when the deletion of its object begins.
    """
    rivals = [
        other
        for other in others
        if other.metadata.key != topic.metadata.key
        and not other.metadata.is_deleting
        and (other.metadata.namespace, other.cluster, other.topic_name)
        == (topic.metadata.namespace, topic.cluster, topic.topic_name)
    ]
    oldest = min([topic, *rivals], key=lambda it: (it.metadata.created_at, it.metadata.key))
    return None if oldest is topic else oldest.metadata.key
