"""Permissions of a client on the resources of a request, and the bit fields of authorized operations.

Source: AuthHelper.authorizedOperations and AclEntry.supportedOperations of Apache Kafka 4.3; bit n stands for the
operation with code n.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.handlers.api import RequestContext
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType

ItemT = TypeVar("ItemT")

NOT_REQUESTED: Final = -(2**31)
"""The value of the fields in responses to requests without them."""

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
    """Return the allowed and the denied items, each in the order of ``items``."""
    allowed: list[ItemT] = []
    denied: list[ItemT] = []
    for item in items:
        (allowed if is_allowed(item) else denied).append(item)
    return allowed, denied


def authorized_operations(context: RequestContext, resource_type: ResourceType, name: str) -> int:
    """Return the operations on a resource that the client may perform."""
    return sum(
        1 << operation
        for operation in _SUPPORTED[resource_type]
        if context.would_be_allowed(operation, resource_type, name)
    )


def authorized_on_cluster(context: RequestContext) -> int:
    """Return the operations on the cluster that the client may perform; 0 without DESCRIBE."""
    if not context.would_be_allowed(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
