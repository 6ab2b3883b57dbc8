"""Descriptions of groups whose members have topics that the client may not see (KIP-848, KIP-932).

Source: KafkaApis.handleConsumerGroupDescribe, handleShareGroupDescribe of Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.handlers.api import RequestContext
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps
from ottla.wire.acl_codes import Operation

MemberT = TypeVar("MemberT")

HIDDEN_TOPIC: Final = "The group has described topic(s) that the client is not authorized to describe."


def has_hidden_topic(
    context: RequestContext, members: Iterable[MemberT], topics_of: Callable[[MemberT], Iterable[str]]
) -> Steps[bool]:
    """Return whether a member has a topic that the client may not describe."""
    if not context.services.authorizer.is_enabled:
        return False
    is_visible: dict[str, bool] = {}
    for number, member in enumerate(members, 1):
        for name in topics_of(member):
            if name not in is_visible:
                is_visible[name] = context.may_on_topic(Operation.DESCRIBE, name)
            if not is_visible[name]:
                return True
        if number % ITEMS_PER_STEP == 0:
            yield None
    return False
