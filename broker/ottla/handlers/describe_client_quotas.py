"""DescribeClientQuotas (api key 48, v0-v1): the limits of users, client ids and addresses (KIP-546).

v1 flexible. Served from this node's metadata.
Source: DescribeClientQuotasRequest.json; ClientQuotasImage.describe of Apache Kafka 4.3, whose error texts these are.
"""

from collections.abc import Mapping
from enum import IntEnum

from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.metadata.client_quotas import CLIENT_ID, IP, USER, QuotaEntity
from ottla.purgatory.steps import Steps, map_in_steps, split_in_steps
from ottla.quoting import cut_name
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


class _Match(IntEnum):
    """The match type of a component of the filter (ClientQuotaFilter)."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@serves(api_key=48, versions=range(0, 2))
def describe_client_quotas(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> Steps[DescribeClientQuotasResponse]:
    """List the entities that match every component; ``strict`` omits entities with more types than the filter."""
    if not context.may_on_cluster(Operation.DESCRIBE_CONFIGS):
        return _error_response(KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    try:
        components = _checked(request.components)
    except KafkaError as error:
        return _error_response(error)
    entities = context.services.metadata.image.client_quotas.entities
    found, _ = yield from split_in_steps(
        entities,
        lambda entity: _matches(entity, components) and (not request.strict or len(entity) == len(components)),
    )
    return DescribeClientQuotasResponse(
        entries=(yield from map_in_steps(lambda entity: _entry(entity, entities[entity]), found))
    )


def _entry(entity: QuotaEntity, limits: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=_type_of)],
        values=[ValueData(key=key, value=value) for key, value in sorted(limits.items())],
    )


def _error_response(error: KafkaError) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


def _checked(components: list[ComponentData]) -> dict[str, ComponentData]:
    """Return the filter's components by type.

    Raises:
        KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION: the filter is not valid.
    """
    by_type: dict[str, ComponentData] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequestError("Invalid empty entity type.")
        if kind in by_type:
            raise InvalidRequestError(f"Entity type {cut_name(kind)} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {cut_name(kind)}")
        _check_match(component)
        by_type[kind] = component
    if IP in by_type and len(by_type) > 1:
        raise InvalidRequestError(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return by_type


def _check_match(component: ComponentData) -> None:
    if component.match_type == _Match.EXACT:
        if component.match is None:
            raise InvalidRequestError("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type not in (_Match.DEFAULT, _Match.SPECIFIED):
        raise InvalidRequestError(f"Unknown match type {component.match_type}")
    elif component.match is not None:
        name = _Match(component.match_type).name
        raise InvalidRequestError(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")


def _matches(entity: QuotaEntity, components: dict[str, ComponentData]) -> bool:
    names = dict(entity)
    for kind, component in components.items():
        if kind not in names:
            return False
        if component.match_type == _Match.EXACT and names[kind] != component.match:
            return False
        if component.match_type == _Match.DEFAULT and names[kind] is not None:
            return False
    return True


def _type_of(pair: tuple[str, str | None]) -> str:
    return pair[0]
