"""Topics that the client may not see, in heartbeats and descriptions of groups (KIP-848, KIP-932, KIP-1071).

Source: KafkaApis.handleConsumerGroupHeartbeat, handleConsumerGroupDescribe, handleShareGroupHeartbeat,
handleShareGroupDescribe, handleStreamsGroupDescribe of Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.handlers.api import RequestContext
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, batches, sorted_in_steps, unique_in_steps
from ottla.wire.acl_codes import Operation

PartT = TypeVar("PartT")

HIDDEN_TOPIC: Final = "The group has described topic(s) that the client is not authorized to describe."


def sorted_subscription(context: RequestContext, names: Iterable[str]) -> Steps[list[str] | None]:
    """Return the topics of a heartbeat sorted, each once; None if the client may not describe one of them."""
    unique = yield from unique_in_steps(names)
    for number, name in enumerate(unique, 1):
        if not context.may_on_topic(Operation.DESCRIBE, name):
            return None
        if number % ITEMS_PER_STEP == 0:
            yield None
    return (yield from sorted_in_steps(list(unique)))


def has_hidden_topic(
    context: RequestContext, parts: Iterable[PartT], topics_of: Callable[[PartT], Iterable[str]]
) -> Steps[bool]:
    """Return whether a part of a group, a member or subtopology, has a topic that the client may not describe."""
    if not context.services.authorizer.is_enabled:
        return False
    is_visible: dict[str, bool] = {}
    for number, part in enumerate(parts, 1):
        for batch in batches(topics_of(part), ITEMS_PER_STEP):
            for name in batch:
                if name not in is_visible:
                    is_visible[name] = context.may_on_topic(Operation.DESCRIBE, name)
                if not is_visible[name]:
                    return True
            yield None
        if number % ITEMS_PER_STEP == 0:
            yield None
    return False
