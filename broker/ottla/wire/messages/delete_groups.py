"""DeleteGroups (api key 42, v0-v2): remove empty groups and their offsets.

Source: DeleteGroupsRequest.json, DeleteGroupsResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, api_key=42, versions="0-2", flexible="2+", served_on="broker"):
    groups_names: list[str] = array("string", "0+")


class DeletableGroupResult(Struct):
    group_id: str = string("0+")
    error_code: int = int16("0+")


class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")
