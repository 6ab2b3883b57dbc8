"""`Authorizer`: may this principal, from this host, do this with that resource?

A denial that matches outweighs every permission; without either the answer is no, unless no entry speaks of the
resource at all and ``allow.everyone.if.no.acl.found`` is set. Super users are never refused.

Entries are found by resource: the literal name, ``*``, and every prefix of the name that an entry has. What was
answered once is answered from memory until an entry changes: a partition of a Produce costs one look-up.

Source: StandardAuthorizerData and Authorizer.authorizeByResourceType of Apache Kafka 4.3.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address
from typing import Final, Protocol

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.types import Uuid
from ottla.wire.acl_codes import WILDCARD, WILDCARD_PRINCIPAL, Acl, Operation, PatternType, PermissionType, ResourceType

REMEMBERED_MAX: Final = 100_000
REMEMBERED_CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""Answers, and the characters of the names in them: some 36 MiB at most. Clients that ask about ever new names, or very
long ones, must not fill the memory."""

_NAME_OF_NOTHING: Final = "hardcode"
"""The resource that Kafka asks about to find super users and those who may do everything."""

_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""To whom one of these is allowed, the operation is allowed as well. A denial implies nothing."""


class Authorizer(Protocol):
    """What handlers ask."""

    is_enabled: bool
    """Whether there are entries to ask at all; without an authorizer everybody may do everything."""
    changes: int
    """How often entries have changed so far: while it stays, so do the answers."""

    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether ``principal`` (``User:name``) may do this from ``host``, an address as text."""

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether there is any resource of that type with which this is allowed."""


class AllowEveryone:
    """The authorizer of a node that has none."""

    is_enabled = False
    changes = 0

    def authorize(self, *_: object) -> bool:
        return True

    def authorize_by_resource_type(self, *_: object) -> bool:
        return True


class AclAuthorizer:
    """See the module; a publisher of the metadata loader."""

    is_enabled = True

    def __init__(self, *, super_users: Iterable[str] = (), allow_if_no_acl_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl_found = allow_if_no_acl_found
        self.changes = 0
        self._acls: dict[Uuid, Acl] = {}
        self._resources = {resource_type: _Resources() for resource_type in ResourceType}
        self._remembered: dict[tuple[str, str, Operation, ResourceType, str], bool] = {}
        self._characters = 0

    def publish(self, delta: MetadataDelta, _: MetadataImage) -> None:
        """Take in what was added and removed."""
        if not delta.acls.changes:
            return
        self.changes += 1
        self._remembered.clear()
        self._characters = 0
        for acl_id, acl in delta.acls.changes.items():
            gone = self._acls.pop(acl_id, None)
            if gone is not None:
                self._resources[gone.resource_type].remove(gone)
            if acl is not None:
                self._acls[acl_id] = acl
                self._resources[acl.resource_type].add(acl)

    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """See `Authorizer.authorize`."""
        question = (principal, host, operation, resource_type, name)
        answer = self._remembered.get(question)
        if answer is None:
            answer = principal in self._super_users or self._decide(principal, host, operation, resource_type, name)
            self._remember(question, answer)
        return answer

    def _remember(self, question: tuple[str, str, Operation, ResourceType, str], answer: bool) -> None:
        self._characters += len(question[-1])
        if len(self._remembered) >= REMEMBERED_MAX or self._characters > REMEMBERED_CHARACTERS_MAX:
            self._remembered.clear()
            self._characters = len(question[-1])
        self._remembered[question] = answer

    def _decide(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        host = _as_java_writes(host)
        is_known = is_allowed = False
        for pattern in self._resources[resource_type].about(name):
            is_known = True
            for acl in pattern.of(principal):
                if acl.host in (WILDCARD, host) and _covers(acl, operation):
                    if acl.permission_type is PermissionType.DENY:
                        return False
                    is_allowed = True
        return is_allowed if is_known else self._allow_if_no_acl_found

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """See `Authorizer.authorize_by_resource_type`; entries that only imply ``operation`` do not count."""
        if self.authorize(principal, host, operation, resource_type, _NAME_OF_NOTHING):
            return True
        host = _as_java_writes(host)
        resources = self._resources[resource_type]
        allowed: list[Acl] = []
        denied: set[tuple[PatternType, str]] = set()
        for pattern in resources.all():
            for acl in pattern.of(principal):
                if acl.host in (WILDCARD, host) and acl.operation in (operation, Operation.ALL):
                    if acl.permission_type is PermissionType.DENY:
                        denied.add((acl.pattern_type, acl.resource_name))
                    else:
                        allowed.append(acl)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_dominated(acl, denied) for acl in allowed)


class _Pattern:
    """All entries of one pattern, by principal."""

    __slots__ = ("by_principal",)

    def __init__(self) -> None:
        self.by_principal: dict[str, list[Acl]] = {}

    def add(self, acl: Acl) -> None:
        self.by_principal.setdefault(acl.principal, []).append(acl)

    def remove(self, acl: Acl) -> None:
        entries = self.by_principal[acl.principal]
        entries.remove(acl)
        if not entries:
            del self.by_principal[acl.principal]

    def of(self, principal: str) -> Iterator[Acl]:
        """Yield the entries that speak of ``principal``."""
        yield from self.by_principal.get(principal, ())
        if principal != WILDCARD_PRINCIPAL:
            yield from self.by_principal.get(WILDCARD_PRINCIPAL, ())


class _Resources:
    """The patterns of one resource type."""

    __slots__ = ("literal", "prefix_lengths", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Pattern] = {}
        self.prefixed: dict[str, _Pattern] = {}
        self.prefix_lengths: Counter[int] = Counter()

    def add(self, acl: Acl) -> None:
        patterns = self._patterns(acl)
        if acl.resource_name not in patterns:
            patterns[acl.resource_name] = _Pattern()
            if patterns is self.prefixed:
                self.prefix_lengths[len(acl.resource_name)] += 1
        patterns[acl.resource_name].add(acl)

    def remove(self, acl: Acl) -> None:
        patterns = self._patterns(acl)
        patterns[acl.resource_name].remove(acl)
        if patterns[acl.resource_name].by_principal:
            return
        del patterns[acl.resource_name]
        if patterns is self.prefixed:
            length = len(acl.resource_name)
            self.prefix_lengths[length] -= 1
            if not self.prefix_lengths[length]:
                del self.prefix_lengths[length]

    def about(self, name: str) -> Iterator[_Pattern]:
        """Yield every pattern that stands for the resource ``name``."""
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            if literal in self.literal:
                yield self.literal[literal]
        for length in self.prefix_lengths:
            if length <= len(name) and name[:length] in self.prefixed:
                yield self.prefixed[name[:length]]

    def all(self) -> Iterator[_Pattern]:
        yield from self.literal.values()
        yield from self.prefixed.values()

    def _patterns(self, acl: Acl) -> dict[str, _Pattern]:
        return self.literal if acl.pattern_type is PatternType.LITERAL else self.prefixed


def _as_java_writes(host: str) -> str:
    """Return an address as entries have it: of IPv6 all eight groups (Inet6Address.getHostAddress)."""
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    groups = IPv6Address(address).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone


def _covers(acl: Acl, operation: Operation) -> bool:
    """Return whether an entry speaks of ``operation``."""
    if acl.operation in (operation, Operation.ALL):
        return True
    return acl.permission_type is PermissionType.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


def _is_dominated(acl: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    """Return whether a denial covers everything that ``acl`` allows."""
    name = acl.resource_name
    if acl.pattern_type is PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
