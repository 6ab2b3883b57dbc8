"""`AclControl`: entries added and removed, as records; and what a filter means.

Source: AclControlManager, AclApis and AccessControlEntryFilter of Apache Kafka 4.3, whose error texts these are.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.controller.result import RECORDS_PER_BATCH_MAX, ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.acls import AclsImage, acl_record
from ottla.metadata.records import MetadataRecord
from ottla.ports import Random
from ottla.types import Uuid
from ottla.wire.acl_codes import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    CodeT,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from ottla.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.metadata_log import RemoveAccessControlEntryRecord

_STORED_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_STORED_PERMISSIONS: Final = (PermissionType.ALLOW, PermissionType.DENY)


class AclFilter(NamedTuple):
    """What to list or to delete; None matches every text, ANY every code."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission_type: PermissionType

    @classmethod
    def of(cls, request: DescribeAclsRequest | DeleteAclsFilter) -> "AclFilter":
        """Read a filter as both requests carry it.

        Raises:
            KafkaError: INVALID_REQUEST: a code that nobody knows.
        """
        found = cls(
            _code(ResourceType, request.resource_type_filter),
            request.resource_name_filter,
            _code(PatternType, request.pattern_type_filter),
            request.principal_filter,
            request.host_filter,
            _code(Operation, request.operation),
            _code(PermissionType, request.permission_type),
        )
        if ResourceType.UNKNOWN is found.resource_type or PatternType.UNKNOWN is found.pattern_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
        if Operation.UNKNOWN is found.operation or PermissionType.UNKNOWN is found.permission_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
        return found

    def matching(self, image: AclsImage) -> Iterator[tuple[Uuid, Acl]]:
        """Yield the entries that the filter means, by id, in the order of ids."""
        yield from sorted((acl_id, acl) for acl_id, acl in image.by_id.items() if self.matches(acl))

    @property
    def exact(self) -> Acl | None:
        """The one entry that is meant; None for a filter that may mean several."""
        if self.resource_name is None or self.principal is None or self.host is None:
            return None
        if self.pattern_type not in _STORED_PATTERNS or self.permission_type not in _STORED_PERMISSIONS:
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
        # MATCH: every entry that would be asked about the resource of this very name.
        if acl.pattern_type is PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


class AclControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState, *, random: Random) -> None:
        self._state = state
        self._random = random

    def create(self, request: CreateAclsRequest) -> ControllerResult[CreateAclsResponse]:
        """Add what is not there yet; each entry succeeds or fails by itself."""
        by_id = self._state.image.acls.by_id
        known = set(by_id.values())
        records: list[MetadataRecord] = []
        results = []
        for creation in request.creations:
            try:
                acl = _checked(creation)
            except KafkaError as error:
                results.append(AclCreationResult(error_code=error.code, error_message=error.message))
                continue
            results.append(AclCreationResult(error_code=ErrorCode.NONE, error_message=None))
            if acl not in known:
                known.add(acl)
                records.append(acl_record(self._new_id(), acl))
        return ControllerResult(CreateAclsResponse(results=results), records, is_atomic=False)

    def delete(self, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
        """Remove what any of the filters means; each filter reports what it found."""
        found: dict[Uuid, None] = {}
        results = []
        image = self._state.image.acls
        # Who removes many entries names each of them: they are not looked for one by one.
        ids = {acl: acl_id for acl_id, acl in image.by_id.items()}
        for each in request.filters:
            try:
                wanted = AclFilter.of(each)
                exact = wanted.exact
                if exact is None:
                    matching = list(wanted.matching(image))
                else:
                    matching = [(ids[exact], exact)] if exact in ids else []
            except KafkaError as error:
                results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.message))
                continue
            matching_acls = [DeleteAclsMatchingAcl(error_message=None, **acl._asdict()) for _, acl in matching]
            results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching_acls))
            found.update((acl_id, None) for acl_id, _ in matching)
        if len(found) > RECORDS_PER_BATCH_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot remove more than {RECORDS_PER_BATCH_MAX} acls in a single delete operation.",
            )
        records = [MetadataRecord(RemoveAccessControlEntryRecord(id=acl_id), 0) for acl_id in found]
        return ControllerResult(DeleteAclsResponse(filter_results=results), records)

    def _new_id(self) -> Uuid:
        while (acl_id := self._random.uuid()) in self._state.image.acls.by_id:
            pass
        return acl_id


def _checked(creation: AclCreation) -> Acl:
    """Return the entry to add.

    Raises:
        KafkaError: INVALID_REQUEST: nobody could mean such an entry.
    """
    acl = Acl(
        _code(ResourceType, creation.resource_type),
        creation.resource_name,
        _code(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _code(Operation, creation.operation),
        _code(PermissionType, creation.permission_type),
    )
    problem = _problem(acl)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    return acl


def _problem(acl: Acl) -> str | None:
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type <= ResourceType.ANY:
        return f"Invalid resourceType {acl.resource_type.name}"
    if acl.pattern_type not in _STORED_PATTERNS:
        return f"Invalid patternType {acl.pattern_type.name}"
    if acl.operation <= Operation.ANY:
        return f"Invalid operation {acl.operation.name}"
    if acl.permission_type not in _STORED_PERMISSIONS:
        return f"Invalid permissionType {acl.permission_type.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from "
            "the principal name)"
        )
    return None


def _code(kind: type[CodeT], value: int) -> CodeT:
    """Return the member of the enumeration ``kind``; its UNKNOWN for a code that is not one of them."""
    try:
        return kind(value)
    except ValueError:
        return kind(0)
