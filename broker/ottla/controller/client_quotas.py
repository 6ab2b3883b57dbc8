"""`ClientQuotaControl`: limits set and removed, as records.

Source: ClientQuotaControlManager of Apache Kafka 4.3, whose error texts these are. Unlike there, host names are
rejected as addresses: the active controller would have to resolve them.
"""

from ipaddress import ip_address
from typing import Final

from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import InvalidRequestError, KafkaError
from ottla.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
    quota_record,
)
from ottla.metadata.records import MetadataRecord
from ottla.quoting import cut_name
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    OpData,
)

_INTEGRAL_MAX: Final = {"INT": 2.0**31 - 1, "LONG": 2.0**63}
_KINDS: Final[dict[str, str | None]] = {
    PRODUCER_BYTE_RATE: "LONG",
    CONSUMER_BYTE_RATE: "LONG",
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""Whether a limit has to be integral, and of which type; None for any positive number."""
_IP_KINDS: Final[dict[str, str | None]] = {CONNECTION_CREATION_RATE: "INT"}
_TYPES: Final = (USER, CLIENT_ID, IP)


class ClientQuotaControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter(self, request: AlterClientQuotasRequest) -> ControllerResult[AlterClientQuotasResponse]:
        """Set and remove limits; each entity succeeds or fails as a whole."""
        records: list[MetadataRecord] = []
        entries = []
        seen: set[QuotaEntity] = set()
        for entry in request.entries:
            entry_response = AlterClientQuotasResponseEntryData(
                error_message=None,
                entity=[
                    AlterClientQuotasResponseEntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
            entries.append(entry_response)
            try:
                entity = _checked_entity(entry)
                if entity in seen:
                    raise InvalidRequestError("Ignoring duplicate entity " + _shown(entity))
                seen.add(entity)
                records += self._alter(entity, entry.ops)
            except KafkaError as error:
                entry_response.error_code, entry_response.error_message = error.code, error.message
        return ControllerResult(
            AlterClientQuotasResponse(entries=entries), [] if request.validate_only else records, is_atomic=False
        )

    def _alter(self, entity: QuotaEntity, operations: list[OpData]) -> list[MetadataRecord]:
        kinds = _IP_KINDS if any(kind == IP for kind, _ in entity) else _KINDS
        present = self._state.image.client_quotas.entities.get(entity, {})
        wanted: dict[str, float | None] = {}
        for operation in operations:
            if operation.key in wanted:
                raise InvalidRequestError(
                    f"Duplicate quota key {cut_name(operation.key)} not updating quota for this entity {_shown(entity)}"
                )
            if operation.key not in kinds:
                raise InvalidRequestError(f"Invalid configuration key {cut_name(operation.key)}")
            if not operation.remove:
                _check_value(operation.key, operation.value, kinds[operation.key])
            wanted[operation.key] = None if operation.remove else operation.value
        return [quota_record(entity, key, value) for key, value in wanted.items() if present.get(key) != value]


def _checked_entity(entry: AlterClientQuotasRequestEntryData) -> QuotaEntity:
    """Return the entity of the limits.

    Raises:
        KafkaError: INVALID_REQUEST: there is no such kind of entity.
    """
    if not entry.entity:
        raise InvalidRequestError("Invalid empty client quota entity")
    names: dict[str, str | None] = {}
    for each in entry.entity:
        if each.entity_type in names:
            raise InvalidRequestError(
                f"Invalid client quota entity, duplicate entity entry {cut_name(each.entity_type)}"
            )
        if each.entity_type not in _TYPES:
            raise InvalidRequestError(f"Unhandled client quota entity type: {cut_name(each.entity_type)}")
        if each.entity_name == "":
            raise InvalidRequestError(f"Empty {cut_name(each.entity_type)} not supported")
        names[each.entity_type] = each.entity_name
    if IP in names:
        if len(names) > 1:
            raise InvalidRequestError(
                "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
            )
        if not _is_address(names[IP]):
            raise InvalidRequestError(f"{cut_name(names[IP] or '')} is not a valid IP or resolvable host.")
    return frozenset(names.items())


def _is_address(name: str | None) -> bool:
    try:
        return name is None or bool(ip_address(name))
    except ValueError:
        return False


def _check_value(key: str, value: float, kind: str | None) -> None:
    # NaN is not positive either.
    if not value > 0:
        raise InvalidRequestError(f"Quota {key} must be greater than 0")
    if kind is None:
        return
    if value > _INTEGRAL_MAX[kind]:
        raise InvalidRequestError(f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}.")
    if abs(value - round(value)) > 1e-6:
        raise InvalidRequestError(f"{key} cannot be a fractional value.")


def _shown(entity: QuotaEntity) -> str:
    pairs = ", ".join(
        f"{kind}={None if name is None else cut_name(name)}" for kind, name in sorted(entity, key=lambda pair: pair[0])
    )
    return f"ClientQuotaEntity(entries={{{pairs}}})"
