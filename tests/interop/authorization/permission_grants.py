"""The grants that the permission matrix walks: by name, each a set of entries for one user."""

from collections.abc import Iterator

from permission_row import DOOMED, NEW, ORDERS, OWNER, READERS, SHARERS, STREAMERS, TXN

from ottla.wire.acl_codes import CLUSTER_NAME, Acl, Operation, PatternType, PermissionType, ResourceType

_O = Operation
_BY_TYPE = {
    ResourceType.TOPIC: (
        (ORDERS, DOOMED, NEW, "orders-auto"),
        (_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.ALL),
    ),
    ResourceType.GROUP: (
        (READERS, SHARERS, STREAMERS),
        (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.ALL),
    ),
    ResourceType.CLUSTER: (
        (CLUSTER_NAME,),
        (
            _O.CREATE,
            _O.ALTER,
            _O.DESCRIBE,
            _O.CLUSTER_ACTION,
            _O.DESCRIBE_CONFIGS,
            _O.ALTER_CONFIGS,
            _O.IDEMPOTENT_WRITE,
            _O.ALL,
        ),
    ),
    ResourceType.USER: ((OWNER,), (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS, _O.ALL)),
    ResourceType.DELEGATION_TOKEN: (("*",), (_O.DESCRIBE, _O.ALL)),
    ResourceType.TRANSACTIONAL_ID: ((TXN,), (_O.DESCRIBE, _O.WRITE, _O.TWO_PHASE_COMMIT, _O.ALL)),
}
_PREFIXES = {ResourceType.TOPIC: "orders", ResourceType.GROUP: "read", ResourceType.TRANSACTIONAL_ID: "pay"}

Grant = tuple[Acl, ...]

LENIENT_GRANTS = (
    "nothing",
    "TOPIC-READ",
    "TOPIC-DESCRIBE-prefixed",
    "TOPIC-WRITE-everywhere",
    "GROUP-READ",
    "CLUSTER-CREATE",
    "TRANSACTIONAL_ID-WRITE",
    "for-somebody-else",
    "denied-from-another-host",
    "dominated-by-a-prefix",
    "everything-denied",
)
"""To be walked as well where what no entry speaks of is allowed to everybody."""


def _grants() -> Iterator[tuple[str, Grant]]:
    """Yield every grant with its name."""
    yield "nothing", ()
    for resource_type, (names, operations) in _BY_TYPE.items():
        for operation in operations:
            what = f"{resource_type.name}-{operation.name}"
            yield what, tuple(_allow(resource_type, name, operation) for name in names)
            if resource_type in _PREFIXES:
                yield f"{what}-prefixed", (_prefixed(resource_type, _PREFIXES[resource_type], operation),)
                yield f"{what}-everywhere", (_allow(resource_type, "*", operation),)
    yield from _together()
    yield from _denied()
    yield from _hosts()


def _together() -> Iterator[tuple[str, Grant]]:
    """Yield permissions that only work together with another one."""
    read_groups = tuple(_allow(ResourceType.GROUP, name, _O.READ) for name in (READERS, SHARERS, STREAMERS))
    for operation in (_O.READ, _O.DESCRIBE, _O.DELETE):
        yield f"group-READ-and-topic-{operation.name}", (*read_groups, _allow(ResourceType.TOPIC, ORDERS, operation))
    delete_groups = tuple(_allow(ResourceType.GROUP, name, _O.DELETE) for name in (READERS, SHARERS))
    yield "group-DELETE-and-topic-READ", (*delete_groups, _allow(ResourceType.TOPIC, ORDERS, _O.READ))
    create = _allow(ResourceType.CLUSTER, CLUSTER_NAME, _O.CREATE)
    for operation in (_O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.DELETE):
        orders = _prefixed(ResourceType.TOPIC, "orders", operation)
        yield f"cluster-CREATE-and-topic-{operation.name}", (create, orders)
        yield f"topic-CREATE-and-{operation.name}", (_prefixed(ResourceType.TOPIC, "orders", _O.CREATE), orders)
    both = _prefixed(ResourceType.TOPIC, "orders", _O.DELETE), _prefixed(ResourceType.TOPIC, "orders", _O.DESCRIBE)
    yield "topic-DELETE-and-DESCRIBE", both
    pays = _allow(ResourceType.TRANSACTIONAL_ID, TXN, _O.WRITE)
    yield "transactional-WRITE-and-topic-WRITE", (pays, _allow(ResourceType.TOPIC, ORDERS, _O.WRITE))
    yield "transactional-WRITE-and-IDEMPOTENT_WRITE", (pays, _cluster(_O.IDEMPOTENT_WRITE))
    acts, describes = _cluster(_O.CLUSTER_ACTION), _cluster(_O.DESCRIBE)
    yield "cluster-CLUSTER_ACTION-and-DESCRIBE", (acts, describes)
    yield "topic-READ-and-cluster-CLUSTER_ACTION", (_allow(ResourceType.TOPIC, ORDERS, _O.READ), acts)


def _denied() -> Iterator[tuple[str, Grant]]:
    """Yield permissions that denials outweigh, in whole or in part."""
    every_topic = _allow(ResourceType.TOPIC, "*", _O.ALL)
    every_group = _allow(ResourceType.GROUP, "*", _O.ALL)
    for operation in (_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALL):
        yield (
            f"every-topic-but-{operation.name}-orders",
            (every_topic, every_group, _deny(_allow(ResourceType.TOPIC, ORDERS, operation))),
        )
    for operation in (_O.READ, _O.DESCRIBE, _O.ALL):
        yield (
            f"every-group-but-{operation.name}-readers",
            (every_topic, every_group, _deny(_allow(ResourceType.GROUP, READERS, operation))),
        )
    for operation in (_O.DESCRIBE, _O.CREATE, _O.ALTER):
        yield f"the-cluster-but-{operation.name}", (_cluster(_O.ALL), _deny(_cluster(operation)))
    write = _allow(ResourceType.TOPIC, ORDERS, _O.WRITE)
    yield "dominated-by-a-prefix", (write, _deny(_prefixed(ResourceType.TOPIC, "ord", _O.WRITE)))
    yield "dominated-by-everything", (write, _deny(_allow(ResourceType.TOPIC, "*", _O.WRITE)))
    yield "prefix-with-a-hole", (_prefixed(ResourceType.TOPIC, "ord", _O.WRITE), _deny(write))
    yield "prefix-dominated", (_prefixed(ResourceType.TOPIC, "orders", _O.WRITE), _deny(_prefixed(*_ORD_WRITE)))
    yield "everything-allowed-and-denied", (every_topic, _deny(every_topic))
    everything = every_topic, every_group, _cluster(_O.ALL), _allow(ResourceType.TRANSACTIONAL_ID, "*", _O.ALL)
    yield "everything-allowed", everything
    yield "everything-denied", tuple(_deny(acl) for acl in everything)


def _hosts() -> Iterator[tuple[str, Grant]]:
    """Yield entries for every address, and for one."""
    read = _allow(ResourceType.TOPIC, ORDERS, _O.READ)
    yield "from-this-host", (read._replace(host="127.0.0.1"),)
    yield "from-another-host", (read._replace(host="10.0.0.1"),)
    yield "denied-from-this-host", (read, _deny(read)._replace(host="127.0.0.1"))
    yield "denied-from-another-host", (read, _deny(read)._replace(host="10.0.0.1"))
    yield "for-everybody", (read._replace(principal="User:*"),)
    yield "for-somebody-else", (read._replace(principal="User:bob"),)
    yield "denied-to-everybody", (read, _deny(read)._replace(principal="User:*"))


_ORD_WRITE = (ResourceType.TOPIC, "ord", _O.WRITE)


def _allow(resource_type: ResourceType, name: str, operation: Operation) -> Acl:
    return Acl(resource_type, name, PatternType.LITERAL, "User:alice", "*", operation, PermissionType.ALLOW)


def _prefixed(resource_type: ResourceType, name: str, operation: Operation) -> Acl:
    return _allow(resource_type, name, operation)._replace(pattern_type=PatternType.PREFIXED)


def _cluster(operation: Operation) -> Acl:
    return _allow(ResourceType.CLUSTER, CLUSTER_NAME, operation)


def _deny(acl: Acl) -> Acl:
    return acl._replace(permission_type=PermissionType.DENY)


GRANTS = dict(_grants())
"""Every grant by its name."""
