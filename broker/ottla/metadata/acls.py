"""Access control entries of the metadata log: the operations that principals may perform on resources.

Source: AclsImage, AclsDelta and StandardAcl of Apache Kafka 4.3.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla.metadata.records import MetadataRecord
from ottla.types import Uuid, format_uuid
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla.wire.messages.metadata_log import AccessControlEntryRecord, RemoveAccessControlEntryRecord


@dataclass(frozen=True, slots=True)
class AclsImage:
    """Every entry by its id."""

    by_id: Mapping[Uuid, Acl] = field(default_factory=dict)

    def records(self) -> Iterator[MetadataRecord]:
        for acl_id, acl in sorted(self.by_id.items()):
            yield acl_record(acl_id, acl)


class AclsDelta:
    """Changes on the way from one `AclsImage` to the next: an entry by id, None for one that is removed."""

    __slots__ = ("changes", "image")

    def __init__(self, image: AclsImage) -> None:
        self.image = image
        self.changes: dict[Uuid, Acl | None] = {}

    def replay_acl(self, record: AccessControlEntryRecord) -> None:
        self.changes[record.id] = Acl(
            ResourceType(record.resource_type),
            record.resource_name,
            PatternType(record.pattern_type),
            record.principal,
            record.host,
            Operation(record.operation),
            PermissionType(record.permission_type),
        )

    def replay_remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        if self.changes.get(record.id, self.image.by_id.get(record.id)) is None:
            raise ValueError(f"there is no access control entry with id {format_uuid(record.id)} to remove")
        self.changes[record.id] = None

    def finish_snapshot(self) -> None:
        """Remove entries that the snapshot does not name."""
        for acl_id in self.image.by_id:
            self.changes.setdefault(acl_id, None)

    def apply(self) -> AclsImage:
        if not self.changes:
            return self.image
        merged = {**self.image.by_id, **self.changes}
        return AclsImage({acl_id: acl for acl_id, acl in merged.items() if acl is not None})


def acl_record(acl_id: Uuid, acl: Acl) -> MetadataRecord:
    """Return the record that adds ``acl``."""
    return MetadataRecord(AccessControlEntryRecord(id=acl_id, **acl._asdict()), 0)
