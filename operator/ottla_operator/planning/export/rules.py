"""Rules of a User for access control entries, the inverse of `model.user`, pure."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from ottla.wire.acl_codes import CLUSTER_NAME, WILDCARD, Acl, Operation, PatternType, ResourceType, code_word
from ottla_operator.model.document import Document
from ottla_operator.model.user import OPERATIONS, PATTERN_TYPES, PERMISSION_TYPES, RESOURCE_TYPES

NAME_SIZE_MAX: Final = 249
HOST_SIZE_MAX: Final = 253
RULES_MAX: Final = 100
_ANY_RESOURCE: Final = frozenset({Operation.ALL, Operation.DESCRIBE})
_CONFIGS: Final = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})
_OPERATIONS_OF: Final[Mapping[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: frozenset(
        {*_ANY_RESOURCE, *_CONFIGS, *map(Operation, range(Operation.READ, Operation.ALTER + 1))}
    ),
    ResourceType.GROUP: frozenset({*_ANY_RESOURCE, *_CONFIGS, Operation.READ, Operation.DELETE}),
    ResourceType.CLUSTER: frozenset(
        {
            *_ANY_RESOURCE,
            *_CONFIGS,
            Operation.CREATE,
            Operation.ALTER,
            Operation.CLUSTER_ACTION,
            Operation.IDEMPOTENT_WRITE,
        }
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({*_ANY_RESOURCE, Operation.WRITE, Operation.TWO_PHASE_COMMIT}),
}
"""The operations that a rule may have, by resource; the CRD has the same in CEL, which is slow to evaluate here."""
_TYPE_NAMES = {code: name for name, code in RESOURCE_TYPES.items()}
_PATTERN_NAMES = {code: name for name, code in PATTERN_TYPES.items()}
_PERMISSION_NAMES = {code: name for name, code in PERMISSION_TYPES.items()}
_OPERATION_NAMES = {code: name for name, code in OPERATIONS.items()}


class Rules(NamedTuple):
    """The rules for entries, and the entries that no rule can have."""

    rules: list[Document]
    left_out: list[Acl]


def rules_of(acls: Collection[Acl]) -> Rules:
    """Return the rules for ``acls``: one for all operations on a resource from a host, in a stable order."""
    operations: defaultdict[Acl, list[Operation]] = defaultdict(list)
    left_out = []
    for acl in sorted(acls):
        if _is_expressible(acl):
            operations[acl._replace(operation=Operation.ANY)].append(acl.operation)
        else:
            left_out.append(acl)
    groups = list(operations.items())
    for of, theirs in groups[RULES_MAX:]:
        left_out += [of._replace(operation=operation) for operation in theirs]
    return Rules([_rule(of, theirs) for of, theirs in groups[:RULES_MAX]], left_out)


def entry_in_words(acl: Acl) -> str:
    """Return an entry without its principal, as `ottla acl` writes it."""
    kind, where = code_word(acl.resource_type), "" if acl.host == WILDCARD else f" from {acl.host}"
    resource = f"{kind}s that begin with" if acl.pattern_type is PatternType.PREFIXED else kind
    return f"{code_word(acl.permission_type)} {code_word(acl.operation)} on {resource} {acl.resource_name}{where}"


def _is_expressible(acl: Acl) -> bool:
    is_literal = acl.pattern_type is PatternType.LITERAL
    is_known = acl.operation in _OPERATIONS_OF.get(acl.resource_type, ()) and acl.permission_type in _PERMISSION_NAMES
    if acl.resource_type is ResourceType.CLUSTER:
        is_named = is_literal and acl.resource_name == CLUSTER_NAME
    else:
        is_any = acl.resource_name == WILDCARD
        is_named = 0 < len(acl.resource_name) <= NAME_SIZE_MAX and (is_literal or not is_any)
    return is_known and is_named and acl.pattern_type in _PATTERN_NAMES and 0 < len(acl.host) <= HOST_SIZE_MAX


def _rule(of: Acl, operations: list[Operation]) -> Document:
    """Return a rule; what is the default when absent is absent."""
    resource: Document = {"type": _TYPE_NAMES[of.resource_type]}
    if of.resource_type is not ResourceType.CLUSTER:
        resource["name"] = of.resource_name
    if of.pattern_type is PatternType.PREFIXED:
        resource["patternType"] = _PATTERN_NAMES[of.pattern_type]
    rule: Document = {"resource": resource, "operations": [_OPERATION_NAMES[it] for it in operations]}
    if of.host != WILDCARD:
        rule["host"] = of.host
    if (permission := _PERMISSION_NAMES[of.permission_type]) != "allow":
        rule["type"] = permission
    return rule
