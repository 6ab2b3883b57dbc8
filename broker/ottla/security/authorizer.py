"""`Authorizer`: whether a principal, from a host, may perform an operation on a resource.

A matching DENY entry outweighs every ALLOW entry; if neither matches, the operation is denied, unless no entry matches
the resource at all and ``allow.everyone.if.no.acl.found`` is set. Super users may perform every operation.

Entries are looked up by resource: the literal name, ``*``, and every prefix of the name that an entry has. Results are
cached until an entry changes: a partition of a Produce request costs one look-up. Until the metadata has been loaded,
requests of all principals but super users fail with a retriable error.

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

CACHED_RESULTS_MAX: Final = 100_000
CACHED_CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""Bounds of the cache and of the characters of the names in it: some 36 MiB at most. Clients that use ever new names,
or very long ones, must not fill the memory."""

_NAME_OF_NOTHING: Final = "hardcode"
"""The resource name with which Kafka checks for super users and for principals that may access every resource."""

_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""An entry that allows one of these also allows the operation. A DENY entry implies nothing."""

# Looking up an enum member takes ten times as long as a module's name.
_ALL: Final = Operation.ALL
_DENY: Final = PermissionType.DENY

_ByPrincipal: TypeAlias = "dict[str, list[Acl]]"
"""The entries of one pattern."""


class Authorizer(Protocol):
    """The permission checks of handlers."""

    is_enabled: bool
    """Whether entries are evaluated at all; without an authorizer every operation is allowed."""
    changes: int
    """How often entries have changed so far: results stay valid until this number changes."""

    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether ``principal`` (``User:name``) may do this from ``host``, an address as Java writes it.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR while the entries are not loaded.
        """

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether the operation is allowed on any resource of that type; raises as `authorize` does."""


class AllowEveryone:
    """The authorizer of a node without ``authorizer.class.name``."""

    is_enabled = False
    changes = 0

    def authorize(self, *_: object) -> bool:
        return True

    def authorize_by_resource_type(self, *_: object) -> bool:
        return True


class AclAuthorizer:
    """Authorizer that evaluates the ACLs of the metadata; see the module. A publisher of the metadata loader."""

    is_enabled = True

    def __init__(self, *, super_users: Iterable[str] = (), allow_if_no_acl_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl_found = allow_if_no_acl_found
        self.changes = 0
        self._is_loaded = False
        self._acls: dict[Uuid, Acl] = {}
        self._resources = {resource_type: _Resources() for resource_type in ResourceType}
        self._cache: dict[tuple[object, ...], bool] = {}
        self._characters = 0

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Add and remove the entries that changed."""
        # A metadata log may start with the quorum's control records alone: ACLs are loaded once feature levels are.
        self._is_loaded = self._is_loaded or bool(image.features.levels)
        if not delta.acls.changes:
            return
        self.changes += 1
        self._cache.clear()
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
        key = (principal, host, operation, resource_type, name)
        result = self._cache.get(key)
        if result is None:
            result = principal in self._super_users or self._decide(principal, host, operation, resource_type, name)
            self._cache_result(key, result, len(name))
        return result

    def _cache_result(self, key: tuple[object, ...], result: bool, characters: int) -> None:
        self._characters += characters
        if len(self._cache) >= CACHED_RESULTS_MAX or self._characters > CACHED_CHARACTERS_MAX:
            self._cache.clear()
            self._characters = characters
        self._cache[key] = result

    def _decide(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if not self._is_loaded:
            # Kafka's code for AuthorizerNotReadyException. Neither denials nor missing entries are known yet.
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "This node has not loaded the access control entries yet: retry."
            )
        patterns = self._resources[resource_type].matching(name)
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
        key = (principal, host, operation, resource_type)
        result = self._cache.get(key)
        if result is None:
            result = self.authorize(
                principal, host, operation, resource_type, _NAME_OF_NOTHING
            ) or self._is_any_allowed(principal, host, operation, resource_type)
            self._cache_result(key, result, 0)
        return result

    def _is_any_allowed(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        resources = self._resources[resource_type]
        matching = (
            acl
            for acl in resources.entries_of(principal)
            if acl.host in (WILDCARD, host) and (acl.operation is operation or acl.operation is _ALL)
        )
        if not resources.denials:
            return next(matching, None) is not None
        allowed: list[Acl] = []
        denied: set[tuple[PatternType, str]] = set()
        for acl in matching:
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
        """Number of DENY entries."""

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

    def matching(self, name: str) -> list[_ByPrincipal]:
        """Return the entries of every pattern that matches the resource ``name``."""
        literal, prefixed, size = self.literal, self.prefixed, len(name)
        found = [literal[name]] if name in literal else []
        if WILDCARD in literal and name != WILDCARD:
            found.append(literal[WILDCARD])
        for length in self.prefix_lengths:
            if length <= size and (prefix := name[:length]) in prefixed:
                found.append(prefixed[prefix])
        return found

    def entries_of(self, principal: str) -> Iterator[Acl]:
        """Yield every entry for ``principal`` or for all principals."""
        principals = {principal, WILDCARD_PRINCIPAL}
        for patterns in (self.literal, self.prefixed):
            for by_principal in patterns.values():
                for each in principals:
                    yield from by_principal.get(each, ())

    def _patterns(self, acl: Acl) -> dict[str, _ByPrincipal]:
        return self.literal if acl.pattern_type is PatternType.LITERAL else self.prefixed


def _is_dominated(acl: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    """Return whether a DENY entry covers everything that ``acl`` allows."""
    name = acl.resource_name
    if acl.pattern_type is PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
