"""`AclControl`: entries added and removed, as records.

Source: AclControlManager and AclApis of Apache Kafka 4.3, whose error texts these are.
"""

from ottla.controller.result import RECORDS_PER_BATCH_MAX, ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.acls import AclsImage, acl_record
from ottla.metadata.records import MetadataRecord
from ottla.ports import Random
from ottla.quoting import cut_name
from ottla.types import Uuid
from ottla.wire.acl_codes import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    read_code,
)
from ottla.wire.acl_filter import STORED_PATTERNS, STORED_PERMISSIONS, AclFilter
from ottla.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.metadata_log import RemoveAccessControlEntryRecord


def acls_matching(wanted: AclFilter, image: AclsImage) -> list[tuple[Uuid, Acl]]:
    """Return the entries that match ``wanted``, by id, in the order of ids."""
    return sorted((acl_id, acl) for acl_id, acl in image.by_id.items() if wanted.matches(acl))


class AclControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState, *, random: Random) -> None:
        self._state = state
        self._random = random

    def create(self, request: CreateAclsRequest) -> ControllerResult[CreateAclsResponse]:
        """Add the entries that do not exist yet; each entry succeeds or fails by itself."""
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
        """Remove the entries that match any of the filters; each filter reports its matches."""
        found: dict[Uuid, None] = {}
        results = []
        image = self._state.image.acls
        # A request that removes many entries names each of them exactly: avoid a scan of all entries for each.
        ids = {acl: acl_id for acl_id, acl in image.by_id.items()}
        for each in request.filters:
            try:
                wanted = AclFilter.read(each)
                exact = wanted.exact
                if exact is None:
                    matching = acls_matching(wanted, image)
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
        KafkaError: INVALID_REQUEST: such an entry is invalid.
    """
    acl = Acl(
        read_code(ResourceType, creation.resource_type),
        creation.resource_name,
        read_code(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        read_code(Operation, creation.operation),
        read_code(PermissionType, creation.permission_type),
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
    if acl.pattern_type not in STORED_PATTERNS:
        return f"Invalid patternType {acl.pattern_type.name}"
    if acl.operation <= Operation.ANY:
        return f"Invalid operation {acl.operation.name}"
    if acl.permission_type not in STORED_PERMISSIONS:
        return f"Invalid permissionType {acl.permission_type.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{cut_name(acl.principal)}` (no colon is present separating the principal "
            "type from the principal name)"
        )
    return None
