"""Fields of the requests of the permission matrix, by version, for the rows of the catalog."""

import time
from collections.abc import Callable
from typing import Any

from permission_row import (
    DOOMED,
    EXISTING,
    FOREIGN_CLUSTER,
    METADATA_TOPIC,
    NEW,
    NO_SUCH_ID,
    NOTHING,
    ORDERS,
    OTHER,
    READERS,
    STRANGERS,
    TargetServer,
    Values,
    build,
)

from ottla.handlers.catalog import CATALOG
from ottla.types import CLUSTER_METADATA_TOPIC_ID
from ottla.wire.acl_codes import Operation, PatternType, PermissionType, ResourceType
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type
from ottla.wire.messages.stored_data import DefaultPrincipalData
from ottla.wire.records import Record, build_batch

_NOW_MS = time.time_ns() // 1_000_000


def _batch() -> bytes:
    return build_batch([Record(0, _NOW_MS, b"key", b"value", ())], base_offset=0)


def produce(acks: int) -> Callable[[TargetServer, int], Values]:
    def values(server: TargetServer, version: int) -> Values:
        return {
            "acks": acks,
            "timeout_ms": 5000,
            "topic_data": [
                _topic(server, name, version >= 13, "name") | {"partition_data": [{"index": 0, "records": _batch()}]}
                for name in (ORDERS, OTHER, NOTHING)
            ],
        }

    return values


def _topic(server: TargetServer, name: str, by_id: bool, key: str) -> Values:
    return {"topic_id": server.topic_ids.get(name, NO_SUCH_ID)} if by_id else {key: name}


def fetch(*, replica: int = -1, session: bool = False) -> Callable[[TargetServer, int], Values]:
    def values(server: TargetServer, version: int) -> Values:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        made: Values = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "session_epoch": 0 if session else -1,
            "topics": [
                _topic(server, name, version >= 13, "topic") | {"partitions": [partition]}
                for name in (ORDERS, OTHER, NOTHING)
            ],
        }
        replica_epoch = {"replica_id": replica, "replica_epoch": -1}
        return made | ({"replica_state": replica_epoch} if version >= 15 else {"replica_id": replica})

    return values


def fetch_metadata_log(server: TargetServer, version: int) -> Values:
    del server, version
    return {
        "cluster_id": FOREIGN_CLUSTER,
        "topics": [{"topic_id": CLUSTER_METADATA_TOPIC_ID, "partitions": [{"partition": 0, "partition_max_bytes": 9}]}],
    }


def commit(server: TargetServer, version: int) -> Values:
    partitions = [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]
    topics = [
        _topic(server, name, version >= 10, "name") | {"partitions": partitions} for name in (ORDERS, OTHER, NOTHING)
    ]
    return {"group_id": READERS, "topics": topics}


def consumer_beat(*topics: str) -> Callable[[TargetServer, int], Values]:
    """Return the heartbeat of a member of no consumer group, which subscribes to ``topics``."""
    return always(group_id=READERS, member_id="none", member_epoch=1, subscribed_topic_names=list(topics))


def describe_groups(_: TargetServer, version: int) -> Values:
    operations = {"include_authorized_operations": True} if version >= 3 else {}
    return {"groups": [READERS, STRANGERS], **operations}


def describe_consumer_groups(_: TargetServer, version: int) -> Values:
    return {"group_ids": [READERS, STRANGERS], "include_authorized_operations": True}


def fetch_offsets(*, all_topics: bool) -> Callable[[TargetServer, int], Values]:
    def values(server: TargetServer, version: int) -> Values:
        if version < 8:
            topics = [{"name": name, "partition_indexes": [0]} for name in (ORDERS, OTHER, NOTHING)]
            return {"group_id": READERS, "topics": None if all_topics else topics}
        named = [
            _topic(server, name, version >= 10, "name") | {"partition_indexes": [0]}
            for name in (ORDERS, OTHER, NOTHING)
        ]
        groups = [{"group_id": group, "topics": None if all_topics else named} for group in (READERS, STRANGERS)]
        return {"groups": groups}

    return values


def find(key_type: int, *keys: str) -> Callable[[TargetServer, int], Values]:
    def values(_: TargetServer, version: int) -> Values:
        asked = {"coordinator_keys": list(keys)} if version >= 4 else {"key": keys[0]}
        return asked if version == 0 else asked | {"key_type": key_type}

    return values


def metadata(names: tuple[str, ...] | None, *, by_id: bool = False, creates: bool = False) -> Callable[..., Values]:
    def values(server: TargetServer, version: int) -> Values:
        topics: list[Values] | None = None
        if names is not None:
            # Before v4 a client could not disable the creation of missing topics.
            asked = names if version >= 4 else [name for name in names if name in EXISTING]
            topics = [
                {"name": None, "topic_id": server.topic_ids.get(name, NO_SUCH_ID)} if by_id else {"name": name}
                for name in asked
            ]
        made: Values = {"topics": [] if version == 0 and topics is None else topics}
        if version >= 4:
            made["allow_auto_topic_creation"] = creates
        if version >= 8:
            made["include_topic_authorized_operations"] = True
        if 8 <= version <= 10:
            made["include_cluster_authorized_operations"] = True
        return made

    return values


def create_topics(_: TargetServer, version: int) -> Values:
    topic = {"num_partitions": 1, "replication_factor": 1}
    topics = [topic | {"name": name} for name in (NEW, NOTHING, ORDERS)]
    return {"topics": topics, "validate_only": True}


def delete_topics(*, by_id: bool) -> Callable[[TargetServer, int], Values]:
    def values(server: TargetServer, version: int) -> Values:
        if version < 6:
            return {"topic_names": [DOOMED, NOTHING, NEW], "timeout_ms": 5000}
        named = [{"name": name} for name in (DOOMED, NOTHING, NEW)]
        ids = [{"name": None, "topic_id": server.topic_ids.get(name, NO_SUCH_ID)} for name in (DOOMED, NOTHING)]
        return {"topics": ids if by_id else named, "timeout_ms": 5000}

    return values


def always(**values: Any) -> Callable[[TargetServer, int], Values]:
    return lambda _, __: values


CONFIG_TOPIC, CONFIG_BROKER, CONFIG_LOGGER, CONFIG_METRICS, CONFIG_GROUP = 2, 4, 8, 16, 32
CONFIGURED = (
    (CONFIG_TOPIC, ORDERS, "retention.ms", "1000"),
    (CONFIG_TOPIC, OTHER, "retention.ms", "1000"),
    (CONFIG_TOPIC, NOTHING, "retention.ms", "1000"),
    (CONFIG_BROKER, "1", "log.cleaner.threads", "1"),
    (CONFIG_BROKER, "", "log.cleaner.threads", "1"),
    (CONFIG_METRICS, "watch", "interval.ms", "1000"),
    (CONFIG_GROUP, READERS, "consumer.session.timeout.ms", "45000"),
    (CONFIG_GROUP, STRANGERS, "consumer.session.timeout.ms", "45000"),
)


def describe_configs(*resources: tuple[int, str, str, str]) -> Callable[[TargetServer, int], Values]:
    asked = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": [key]} for kind, name, key, _ in resources
    ]
    return always(resources=asked)


def alter_configs(*resources: tuple[int, str, str, str]) -> Callable[[TargetServer, int], Values]:
    asked = [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": key, "value": value}]}
        for kind, name, key, value in resources
    ]
    return always(resources=asked, validate_only=True)


def acl_filter(*, principal: str | None, pattern: PatternType = PatternType.ANY, name: str | None = None) -> Values:
    return {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": principal,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": PermissionType.ANY,
    }


NO_ENTRY = {
    "resource_type": ResourceType.CLUSTER,
    "resource_name": "not-the-cluster",
    "resource_pattern_type": PatternType.LITERAL,
    "principal": "User:nobody",
    "host": "*",
    "operation": Operation.ALTER,
    "permission_type": PermissionType.ALLOW,
}

QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "nobody"}],
    "ops": [{"key": "producer_byte_rate", "value": 1000.0}],
}


def of_log(**partition: Any) -> Values:
    return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0} | partition]}]}


def envelope(inner: ApiKey, principal: str, values: Values) -> Callable[[TargetServer, int], Values]:
    version = CATALOG[inner].last_version
    header = RequestHeader(request_api_key=inner, request_api_version=version, correlation_id=7, client_id="inner")
    request = build(request_type(inner), values)
    data = header.encode(request_header_version(inner, version)) + request.encode(version)
    who = bytes(2) + DefaultPrincipalData(type="User", name=principal).encode(0)
    return always(request_data=data, request_principal=who, client_host_address=bytes([127, 0, 0, 1]))


def of_each_topic(**partition: Any) -> Callable[[TargetServer, int], Values]:
    """Return requests that name partition 0 of each topic."""
    return always(topics=[{"name": name, "partitions": [dict(partition)]} for name in (ORDERS, OTHER, NOTHING)])


def of_broker(broker_id: int) -> Values:
    return {"broker_id": broker_id, "broker_epoch": 1}
