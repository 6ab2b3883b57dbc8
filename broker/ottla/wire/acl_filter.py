"""`AclFilter`: the filter of access control entries in DescribeAcls and DeleteAcls.

Source: AclBindingFilter, ResourcePatternFilter and AccessControlEntryFilter of Apache Kafka 4.3; the error texts are
its AclControlManager's.
"""

from typing import Any, Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.acl_codes import WILDCARD, Acl, Operation, PatternType, PermissionType, ResourceType, read_code
from ottla.wire.messages.delete_acls import DeleteAclsFilter
from ottla.wire.messages.describe_acls import DescribeAclsRequest

STORED_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
STORED_PERMISSIONS: Final = (PermissionType.ALLOW, PermissionType.DENY)


class AclFilter(NamedTuple):
    """A filter of access control entries; an absent field matches everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    """MATCH: every entry that applies to the resource of that name, prefixes and ``*`` too."""
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission_type: PermissionType = PermissionType.ANY

    @classmethod
    def of(cls, acl: Acl) -> "AclFilter":
        """Return the filter that matches exactly ``acl``."""
        return cls(*acl)

    @classmethod
    def read(cls, request: DescribeAclsRequest | DeleteAclsFilter) -> "AclFilter":
        """Read a filter as both requests carry it.

        Raises:
            KafkaError: INVALID_REQUEST: an unknown code.
        """
        found = cls(
            read_code(ResourceType, request.resource_type_filter),
            request.resource_name_filter,
            read_code(PatternType, request.pattern_type_filter),
            request.principal_filter,
            request.host_filter,
            read_code(Operation, request.operation),
            read_code(PermissionType, request.permission_type),
        )
        if ResourceType.UNKNOWN is found.resource_type or PatternType.UNKNOWN is found.pattern_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
        if Operation.UNKNOWN is found.operation or PermissionType.UNKNOWN is found.permission_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
        return found

    def fields(self) -> dict[str, Any]:
        """Return the fields of a request, the inverse of `read`."""
        return {
            "resource_type_filter": self.resource_type,
            "resource_name_filter": self.resource_name,
            "pattern_type_filter": self.pattern_type,
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": self.operation,
            "permission_type": self.permission_type,
        }

    @property
    def exact(self) -> Acl | None:
        """The one entry that matches; None for a filter that may match several."""
        if self.resource_name is None or self.principal is None or self.host is None:
            return None
        if self.pattern_type not in STORED_PATTERNS or self.permission_type not in STORED_PERMISSIONS:
            return None
        if self.resource_type is ResourceType.ANY or self.operation is Operation.ANY:
            return None
        return Acl(
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        # MATCH: every entry that applies to the resource of this very name.
        if acl.pattern_type is PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD
