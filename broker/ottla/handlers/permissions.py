"""What a client may do with what it names, and the bit fields that tell it so.

Source: AuthHelper.authorizedOperations and AclEntry.supportedOperations of Apache Kafka 4.3; bit n stands for the
operation with code n.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.handlers.api import RequestContext
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType

ItemT = TypeVar("ItemT")

NOT_ASKED: Final = -(2**31)
"""What the fields say when the request did not ask."""

_SUPPORTED: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


def split(items: Iterable[ItemT], is_allowed: Callable[[ItemT], bool]) -> tuple[list[ItemT], list[ItemT]]:
    """Return what is allowed and what is not, each in the order of ``items``."""
    allowed: list[ItemT] = []
    refused: list[ItemT] = []
    for item in items:
        (allowed if is_allowed(item) else refused).append(item)
    return allowed, refused


def authorized_operations(context: RequestContext, resource_type: ResourceType, name: str) -> int:
    """Return the operations on a resource that the client may do."""
    return sum(
        1 << operation
        for operation in _SUPPORTED[resource_type]
        if context.would_be_allowed(operation, resource_type, name)
    )


def authorized_on_cluster(context: RequestContext) -> int:
    """Return what the client may do with the cluster; 0 to who may not even describe it."""
    if not context.would_be_allowed(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
