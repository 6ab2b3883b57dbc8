"""AlterClientQuotas (api key 49, v0-v1): set or remove client quotas.

Source: AlterClientQuotasRequest.json, AlterClientQuotasResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, Struct, array, boolean, float64, int16, int32, string


class AlterClientQuotasRequestEntityData(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class OpData(Struct):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[AlterClientQuotasRequestEntityData] = array(AlterClientQuotasRequestEntityData, "0+")
    ops: list[OpData] = array(OpData, "0+")


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+", served_on="broker controller"):
    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData, "0+")
    validate_only: bool = boolean("0+")


class AlterClientQuotasResponseEntityData(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[AlterClientQuotasResponseEntityData] = array(AlterClientQuotasResponseEntityData, "0+")


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData, "0+")
