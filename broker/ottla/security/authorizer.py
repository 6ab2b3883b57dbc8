"""`Authorizer`: may this principal, from this host, do this with that resource?

A denial that matches outweighs every permission; without either the answer is no, unless no entry speaks of the
resource at all and ``allow.everyone.if.no.acl.found`` is set. Super users are never refused.

Entries are found by resource: the literal name, ``*``, and every prefix of the name that an entry has. What was
answered once is answered from memory until an entry changes: a partition of a Produce costs one look-up.
Until the metadata has been read once, everybody but super users is told to ask again.

Source: StandardAuthorizerData and Authorizer.authorizeByResourceType of Apache Kafka 4.3.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeAlias

from ottla.errors import ErrorCode, KafkaError
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
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""To whom one of these is allowed, the operation is allowed as well. A denial implies nothing."""

# Looking a member up in its class takes ten times as long as a name of the module.
_ALL: Final = Operation.ALL
_DENY: Final = PermissionType.DENY

_ByPrincipal: TypeAlias = "dict[str, list[Acl]]"
"""The entries of one pattern."""


class Authorizer(Protocol):
    """What handlers ask."""

    is_enabled: bool
    """Whether there are entries to ask at all; without an authorizer everybody may do everything."""
    changes: int
    """How often entries have changed so far: while it stays, so do the answers."""

    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether ``principal`` (``User:name``) may do this from ``host``, an address as Java writes it.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR where it is not known yet.
        """

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether there is any resource of that type with which this is allowed; raises as `authorize` does."""


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
        self._is_loaded = False
        self._acls: dict[Uuid, Acl] = {}
        self._resources = {resource_type: _Resources() for resource_type in ResourceType}
        self._remembered: dict[tuple[object, ...], bool] = {}
        self._characters = 0

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take in what was added and removed."""
        # A log may begin with records of the quorum alone: the cluster's own come with its levels.
        self._is_loaded = self._is_loaded or bool(image.features.levels)
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
            self._remember(question, answer, len(name))
        return answer

    def _remember(self, question: tuple[object, ...], answer: bool, characters: int) -> None:
        self._characters += characters
        if len(self._remembered) >= REMEMBERED_MAX or self._characters > REMEMBERED_CHARACTERS_MAX:
            self._remembered.clear()
            self._characters = characters
        self._remembered[question] = answer

    def _decide(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if not self._is_loaded:
            # As Kafka tells its AuthorizerNotReadyException. Neither a denial nor that there is no entry is known yet.
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "This node has not read the access control entries yet: ask again."
            )
        patterns = self._resources[resource_type].about(name)
        is_allowed = False
        for pattern in patterns:
            for each in (principal, WILDCARD_PRINCIPAL):
                for _, _, _, _, entry_host, covered, permission in pattern.get(each, ()):
                    if entry_host != WILDCARD and entry_host != host:  # noqa: PLR1714 (half the time of a tuple)
                        continue
                    if covered is operation or covered is _ALL:
                        if permission is _DENY:
                            return False
                        is_allowed = True
                    elif permission is not _DENY and covered in _IMPLIED_BY.get(operation, ()):
                        is_allowed = True
        return is_allowed if patterns else self._allow_if_no_acl_found

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """See `Authorizer.authorize_by_resource_type`; entries that only imply ``operation`` do not count."""
        question = (principal, host, operation, resource_type)
        answer = self._remembered.get(question)
        if answer is None:
            answer = self.authorize(
                principal, host, operation, resource_type, _NAME_OF_NOTHING
            ) or self._is_any_allowed(principal, host, operation, resource_type)
            self._remember(question, answer, 0)
        return answer

    def _is_any_allowed(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        resources = self._resources[resource_type]
        fitting = (
            acl
            for acl in resources.of(principal)
            if acl.host in (WILDCARD, host) and (acl.operation is operation or acl.operation is _ALL)
        )
        if not resources.denials:
            return next(fitting, None) is not None
        allowed: list[Acl] = []
        denied: set[tuple[PatternType, str]] = set()
        for acl in fitting:
            if acl.permission_type is _DENY:
                denied.add((acl.pattern_type, acl.resource_name))
            else:
                allowed.append(acl)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_dominated(acl, denied) for acl in allowed)


class _Resources:
    """The entries of one resource type, by pattern and principal."""

    __slots__ = ("denials", "literal", "prefix_lengths", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _ByPrincipal] = {}
        self.prefixed: dict[str, _ByPrincipal] = {}
        self.prefix_lengths: Counter[int] = Counter()
        self.denials = 0
        """How many entries deny."""

    def add(self, acl: Acl) -> None:
        self.denials += acl.permission_type is _DENY
        patterns = self._patterns(acl)
        if acl.resource_name not in patterns:
            patterns[acl.resource_name] = {}
            if patterns is self.prefixed:
                self.prefix_lengths[len(acl.resource_name)] += 1
        patterns[acl.resource_name].setdefault(acl.principal, []).append(acl)

    def remove(self, acl: Acl) -> None:
        self.denials -= acl.permission_type is _DENY
        patterns = self._patterns(acl)
        by_principal = patterns[acl.resource_name]
        by_principal[acl.principal].remove(acl)
        if by_principal[acl.principal]:
            return
        del by_principal[acl.principal]
        if by_principal:
            return
        del patterns[acl.resource_name]
        if patterns is self.prefixed:
            length = len(acl.resource_name)
            self.prefix_lengths[length] -= 1
            if not self.prefix_lengths[length]:
                del self.prefix_lengths[length]

    def about(self, name: str) -> list[_ByPrincipal]:
        """Return what every pattern that stands for the resource ``name`` says."""
        literal, prefixed, size = self.literal, self.prefixed, len(name)
        found = [literal[name]] if name in literal else []
        if WILDCARD in literal and name != WILDCARD:
            found.append(literal[WILDCARD])
        for length in self.prefix_lengths:
            if length <= size and (prefix := name[:length]) in prefixed:
                found.append(prefixed[prefix])
        return found

    def of(self, principal: str) -> Iterator[Acl]:
        """Yield every entry that speaks of ``principal``."""
        principals = {principal, WILDCARD_PRINCIPAL}
        for patterns in (self.literal, self.prefixed):
            for by_principal in patterns.values():
                for each in principals:
                    yield from by_principal.get(each, ())

    def _patterns(self, acl: Acl) -> dict[str, _ByPrincipal]:
        return self.literal if acl.pattern_type is PatternType.LITERAL else self.prefixed


def _is_dominated(acl: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    """Return whether a denial covers everything that ``acl`` allows."""
    name = acl.resource_name
    if acl.pattern_type is PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
