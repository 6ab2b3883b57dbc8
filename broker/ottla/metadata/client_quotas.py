"""Client quotas: limits by user, client id and address, as the metadata log has them (KIP-546).

Source: ClientQuotasImage and ClientQuotasDelta of Apache Kafka 4.3.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.metadata.records import MetadataRecord
from ottla.wire.messages.metadata_log import ClientQuotaRecord, EntityData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

QuotaEntity: TypeAlias = "frozenset[tuple[str, str | None]]"
"""The entity of a quota: names by type, None for the default of that type."""


@dataclass(frozen=True, slots=True)
class ClientQuotasImage:
    """Limits by key, by entity; an entity without any is absent."""

    entities: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)

    def records(self) -> Iterator[MetadataRecord]:
        for entity, limits in sorted(self.entities.items(), key=lambda item: sorted(map(_place, item[0]))):
            for key, value in sorted(limits.items()):
                yield quota_record(entity, key, value)


class ClientQuotasDelta:
    """Changes on the way from one `ClientQuotasImage` to the next: per entity, a value per key, None for a removal."""

    __slots__ = ("changes", "image")

    def __init__(self, image: ClientQuotasImage) -> None:
        self.image = image
        self.changes: dict[QuotaEntity, dict[str, float | None]] = {}

    def replay_client_quota(self, record: ClientQuotaRecord) -> None:
        entity = frozenset((each.entity_type, each.entity_name) for each in record.entity)
        self.changes.setdefault(entity, {})[record.key] = None if record.remove else record.value

    def finish_snapshot(self) -> None:
        """Remove limits that the snapshot does not name."""
        for entity, limits in self.image.entities.items():
            changes = self.changes.setdefault(entity, {})
            for key in limits:
                changes.setdefault(key, None)

    def apply(self) -> ClientQuotasImage:
        if not self.changes:
            return self.image
        entities = dict(self.image.entities)
        for entity, changes in self.changes.items():
            merged = {**self.image.entities.get(entity, {}), **changes}
            limits = {key: value for key, value in merged.items() if value is not None}
            if limits:
                entities[entity] = limits
            else:
                entities.pop(entity, None)
        return ClientQuotasImage(entities)


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> MetadataRecord:
    """Return the record that sets a limit, or removes it (None)."""
    named = [EntityData(entity_type=kind, entity_name=name) for kind, name in _in_order(entity)]
    record = ClientQuotaRecord(entity=named, key=key, value=value or 0.0, remove=value is None)
    return MetadataRecord(record, 0)


def _in_order(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    """Return the pairs sorted, the default of a type before its names."""
    return sorted(entity, key=_place)


def _place(pair: tuple[str, str | None]) -> tuple[str, bool, str]:
    """Return the sort key of a pair: a string and None do not compare."""
    kind, name = pair
    return kind, name is not None, name or ""
