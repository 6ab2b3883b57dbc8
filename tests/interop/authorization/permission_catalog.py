"""What the permission matrix asks: requests of every API, as a table.

A row makes a request out of plain values, so that it can be sent to any server. Every row is safe to be allowed:
it changes nothing (validate_only, other cluster ids, brokers that are not there), or says how to make it undone.

The names: topics `orders`, `orders-doomed` and `other` exist, `orders-new` and `nothing` do not; grants by name speak
of those that begin with `orders`. Of the groups, `readers` has offsets, `strangers` does not exist.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ottla.errors import ErrorCode
from ottla.handlers.catalog import CATALOG
from ottla.types import CLUSTER_METADATA_TOPIC_ID, Uuid
from ottla.wire.acl_codes import Operation, PatternType, PermissionType, ResourceType
from ottla.wire.codec import Message
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type
from ottla.wire.messages.stored_data import DefaultPrincipalData
from ottla.wire.records import Record, build_batch

ORDERS, DOOMED, OTHER, NEW, NOTHING = "orders", "orders-doomed", "other", "orders-new", "nothing"
EXISTING = (ORDERS, DOOMED, OTHER)
ASKED = (ORDERS, OTHER, NEW, NOTHING)
READERS, STRANGERS = "readers", "strangers"
AUTO = "orders-auto"
NOBODY = 99
"""The id of no broker."""
FOREIGN_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
NO_SUCH_ID = Uuid(bytes([7] * 16))
METADATA_TOPIC = "__cluster_metadata"
TXN = "payments"
_NOW_MS = time.time_ns() // 1_000_000


class Asked(Protocol):
    """What a row may use of the server that it is sent to."""

    topic_ids: dict[str, Uuid]

    def restore_topics(self) -> None: ...

    def restore_offsets(self) -> None: ...

    def drop_auto_created(self) -> None: ...


Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One request. ``values`` are its fields in a version; nested structs are dicts."""

    api_key: ApiKey
    name: str
    values: Callable[[Asked, int], Values]
    versions: tuple[int, ...] = ()
    """Besides the newest."""
    on_controller: bool = False
    undo: Callable[[Asked], None] | None = None
    """Called after an answer with ``undone_after`` in it."""
    undone_after: ErrorCode = ErrorCode.NONE
    only_refusals: bool = False
    """Compare who is refused, not what the others are told: this release does not serve it in full."""

    @property
    def title(self) -> str:
        return f"{self.api_key.name.lower()}{'@controller' if self.on_controller else ''} {self.name}".strip()

    @property
    def all_versions(self) -> tuple[int, ...]:
        return (*self.versions, CATALOG[self.api_key].last_version)


def build(kind: type[Any], values: Values) -> Any:
    """Return a struct made of plain values."""
    made = {}
    for key, value in values.items():
        field = kind.fields[key]
        inner = getattr(field, "struct_type", None)
        if inner is not None and isinstance(value, list):
            made[key] = [build(inner, each) if isinstance(each, dict) else each for each in value]
        elif inner is not None and isinstance(value, dict):
            made[key] = build(inner, value)
        else:
            made[key] = value
    return kind(**made)


def request_of(row: Row, server: Asked, version: int) -> Message:
    made: Message = build(request_type(row.api_key), row.values(server, version))
    return made


def _batch() -> bytes:
    return build_batch([Record(0, _NOW_MS, b"key", b"value", ())], base_offset=0)


def _produce(acks: int) -> Callable[[Asked, int], Values]:
    def values(server: Asked, version: int) -> Values:
        return {
            "acks": acks,
            "timeout_ms": 5000,
            "topic_data": [
                _topic(server, name, version >= 13, "name") | {"partition_data": [{"index": 0, "records": _batch()}]}
                for name in (ORDERS, OTHER, NOTHING)
            ],
        }

    return values


def _topic(server: Asked, name: str, by_id: bool, key: str) -> Values:
    return {"topic_id": server.topic_ids.get(name, NO_SUCH_ID)} if by_id else {key: name}


def _fetch(*, replica: int = -1, session: bool = False) -> Callable[[Asked, int], Values]:
    def values(server: Asked, version: int) -> Values:
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


def _fetch_metadata_log(server: Asked, version: int) -> Values:
    del server, version
    return {
        "cluster_id": FOREIGN_CLUSTER,
        "topics": [{"topic_id": CLUSTER_METADATA_TOPIC_ID, "partitions": [{"partition": 0, "partition_max_bytes": 9}]}],
    }


def _commit(server: Asked, version: int) -> Values:
    partitions = [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]
    topics = [
        _topic(server, name, version >= 10, "name") | {"partitions": partitions} for name in (ORDERS, OTHER, NOTHING)
    ]
    return {"group_id": READERS, "topics": topics}


def _fetch_offsets(*, all_topics: bool) -> Callable[[Asked, int], Values]:
    def values(server: Asked, version: int) -> Values:
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


def _find(key_type: int, *keys: str) -> Callable[[Asked, int], Values]:
    def values(_: Asked, version: int) -> Values:
        asked = {"coordinator_keys": list(keys)} if version >= 4 else {"key": keys[0]}
        return asked if version == 0 else asked | {"key_type": key_type}

    return values


def _metadata(names: tuple[str, ...] | None, *, by_id: bool = False, creates: bool = False) -> Callable[..., Values]:
    def values(server: Asked, version: int) -> Values:
        topics: list[Values] | None = None
        if names is not None:
            # Before v4 a client could not forbid that what is missing is created.
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


def _create_topics(_: Asked, version: int) -> Values:
    topic = {"num_partitions": 1, "replication_factor": 1}
    topics = [topic | {"name": name} for name in (NEW, NOTHING, ORDERS)]
    return {"topics": topics, "validate_only": True}


def _delete_topics(*, by_id: bool) -> Callable[[Asked, int], Values]:
    def values(server: Asked, version: int) -> Values:
        if version < 6:
            return {"topic_names": [DOOMED, NOTHING, NEW], "timeout_ms": 5000}
        named = [{"name": name} for name in (DOOMED, NOTHING, NEW)]
        ids = [{"name": None, "topic_id": server.topic_ids.get(name, NO_SUCH_ID)} for name in (DOOMED, NOTHING)]
        return {"topics": ids if by_id else named, "timeout_ms": 5000}

    return values


def _plain(**values: Any) -> Callable[[Asked, int], Values]:
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


def _describe_configs(*resources: tuple[int, str, str, str]) -> Callable[[Asked, int], Values]:
    asked = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": [key]} for kind, name, key, _ in resources
    ]
    return _plain(resources=asked)


def _alter_configs(*resources: tuple[int, str, str, str]) -> Callable[[Asked, int], Values]:
    asked = [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": key, "value": value}]}
        for kind, name, key, value in resources
    ]
    return _plain(resources=asked, validate_only=True)


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


_NO_ENTRY = {
    "resource_type": ResourceType.CLUSTER,
    "resource_name": "not-the-cluster",
    "resource_pattern_type": PatternType.LITERAL,
    "principal": "User:nobody",
    "host": "*",
    "operation": Operation.ALTER,
    "permission_type": PermissionType.ALLOW,
}

_QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "nobody"}],
    "ops": [{"key": "producer_byte_rate", "value": 1000.0}],
}


def _of_log(**partition: Any) -> Values:
    return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0} | partition]}]}


def _envelope(inner: ApiKey, principal: str, values: Values) -> Callable[[Asked, int], Values]:
    version = CATALOG[inner].last_version
    header = RequestHeader(request_api_key=inner, request_api_version=version, correlation_id=7, client_id="inner")
    request = build(request_type(inner), values)
    data = header.encode(request_header_version(inner, version)) + request.encode(version)
    who = bytes(2) + DefaultPrincipalData(type="User", name=principal).encode(0)
    return _plain(request_data=data, request_principal=who, client_host_address=bytes([127, 0, 0, 1]))


def _partitions(**partition: Any) -> Callable[[Asked, int], Values]:
    """Return requests that name partition 0 of each topic."""
    return _plain(topics=[{"name": name, "partitions": [dict(partition)]} for name in (ORDERS, OTHER, NOTHING)])


def _move(broker: int) -> Values:
    return {"broker_id": broker, "broker_epoch": 1}


_A = ApiKey
_TOPICS_NAMED = [{"name": name} for name in (ORDERS, OTHER, NOTHING)]

CLIENTS_ROWS = (
    Row(
        api_key=_A.API_VERSIONS,
        name="",
        values=_plain(client_software_name="m", client_software_version="1"),
        only_refusals=True,
    ),
    Row(api_key=_A.SASL_HANDSHAKE, name="again", values=_plain(mechanism="PLAIN")),
    Row(api_key=_A.SASL_AUTHENTICATE, name="again", values=_plain(auth_bytes=b"")),
    Row(api_key=_A.PRODUCE, name="acks=1", values=_produce(1), versions=(3, 7, 12)),
    Row(api_key=_A.PRODUCE, name="acks=0", values=_produce(0), versions=(3, 12)),
    Row(api_key=_A.FETCH, name="", values=_fetch(), versions=(4, 12)),
    Row(api_key=_A.FETCH, name="session", values=_fetch(session=True), versions=(12,)),
    Row(api_key=_A.FETCH, name="as a follower", values=_fetch(replica=NOBODY), versions=(11, 14)),
    Row(
        api_key=_A.LIST_OFFSETS,
        name="",
        versions=(1,),
        values=lambda s, v: _partitions(partition_index=0, timestamp=-2)(s, v) | {"replica_id": -1},
    ),
    Row(
        api_key=_A.OFFSET_COMMIT, name="", values=_commit, versions=(2, 9), undo=lambda server: server.restore_offsets()
    ),
    Row(api_key=_A.OFFSET_FETCH, name="named", values=_fetch_offsets(all_topics=False), versions=(1, 2, 7, 9)),
    Row(api_key=_A.OFFSET_FETCH, name="all", values=_fetch_offsets(all_topics=True), versions=(2, 7, 9)),
    Row(api_key=_A.FIND_COORDINATOR, name="groups", values=_find(0, READERS, STRANGERS), versions=(0, 2)),
    Row(
        api_key=_A.FIND_COORDINATOR, name="transactions", values=_find(1, TXN, "pay"), versions=(1,), only_refusals=True
    ),
    Row(
        api_key=_A.JOIN_GROUP,
        name="",
        versions=(0,),
        values=_plain(
            group_id=READERS,
            session_timeout_ms=10000,
            member_id="nobody",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        ),
    ),
    Row(
        api_key=_A.HEARTBEAT,
        name="",
        versions=(0,),
        values=_plain(group_id=READERS, generation_id=1, member_id="nobody"),
    ),
    Row(
        api_key=_A.LEAVE_GROUP,
        name="",
        versions=(0,),
        values=lambda _, v: (
            {"group_id": READERS} | ({"member_id": "nobody"} if v < 3 else {"members": [{"member_id": "nobody"}]})
        ),
    ),
    Row(
        api_key=_A.SYNC_GROUP,
        name="",
        versions=(0,),
        values=_plain(group_id=READERS, generation_id=1, member_id="nobody"),
    ),
    Row(
        api_key=_A.DESCRIBE_GROUPS,
        name="",
        versions=(0, 5),
        values=lambda _, v: (
            {"groups": [READERS, STRANGERS]} | ({"include_authorized_operations": True} if v >= 3 else {})
        ),
    ),
    Row(api_key=_A.LIST_GROUPS, name="", versions=(0,), values=_plain()),
    Row(
        api_key=_A.DELETE_GROUPS,
        name="",
        values=_plain(groups_names=[READERS, STRANGERS]),
        undo=lambda server: server.restore_offsets(),
    ),
    Row(
        api_key=_A.OFFSET_DELETE,
        name="",
        undo=lambda server: server.restore_offsets(),
        values=lambda s, v: _partitions(partition_index=0)(s, v) | {"group_id": READERS},
    ),
    Row(api_key=_A.DELETE_RECORDS, name="", values=_partitions(partition_index=0, offset=0)),
    Row(api_key=_A.INIT_PRODUCER_ID, name="idempotent", versions=(0,), values=_plain(transactional_id=None)),
    Row(
        api_key=_A.INIT_PRODUCER_ID,
        name="transactional",
        values=_plain(transactional_id=TXN, transaction_timeout_ms=60000),
        only_refusals=True,
    ),
    Row(
        api_key=_A.OFFSET_FOR_LEADER_EPOCH,
        name="",
        versions=(2,),
        values=lambda _, v: (
            {
                "topics": [
                    {"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]}
                    for name in (ORDERS, OTHER, NOTHING)
                ]
            }
            | ({"replica_id": -1} if v >= 3 else {})
        ),
    ),
    Row(
        api_key=_A.DESCRIBE_LOG_DIRS,
        name="",
        versions=(1, 2),
        values=_plain(topics=[{"topic": OTHER, "partitions": [0]}]),
    ),
    Row(
        api_key=_A.DESCRIBE_PRODUCERS,
        name="",
        values=_plain(topics=[{"name": name, "partition_indexes": [0]} for name in (ORDERS, OTHER, NOTHING)]),
    ),
    Row(api_key=_A.METADATA, name="named", values=_metadata(ASKED), versions=(0, 4, 8)),
    Row(api_key=_A.METADATA, name="by id", values=_metadata((ORDERS, OTHER, NOTHING), by_id=True)),
    Row(api_key=_A.METADATA, name="all", values=_metadata(None), versions=(0, 1, 10)),
    Row(
        api_key=_A.METADATA,
        name="that creates",
        values=_metadata((AUTO,), creates=True),
        versions=(4,),
        undo=lambda server: server.drop_auto_created(),
        undone_after=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    Row(api_key=_A.DESCRIBE_TOPIC_PARTITIONS, name="named", values=_plain(topics=_TOPICS_NAMED)),
    Row(api_key=_A.DESCRIBE_TOPIC_PARTITIONS, name="all", values=_plain()),
    Row(
        api_key=_A.DESCRIBE_TOPIC_PARTITIONS,
        name="after a cursor",
        values=_plain(topics=_TOPICS_NAMED, cursor={"topic_name": ORDERS, "partition_index": 0}),
    ),
    Row(api_key=_A.DESCRIBE_CLUSTER, name="", values=_plain(include_cluster_authorized_operations=True)),
    Row(
        api_key=_A.LIST_CONFIG_RESOURCES,
        name="",
        versions=(0,),
        # Not of loggers: this release has none to configure.
        values=lambda _, v: {"resource_types": [CONFIG_TOPIC, CONFIG_BROKER, CONFIG_GROUP]} if v else {},
    ),
    Row(api_key=_A.DESCRIBE_CLIENT_QUOTAS, name="", values=_plain(components=[])),
    # Kafka's controllers say that they serve this, and do not. No user at all, not null: to a refusal of that Kafka's
    # brokers give no answer.
    Row(api_key=_A.DESCRIBE_USER_SCRAM_CREDENTIALS, name="", values=_plain(users=[])),
    Row(api_key=_A.DESCRIBE_USER_SCRAM_CREDENTIALS, name="of one", values=_plain(users=[{"name": "nobody"}])),
    *(
        Row(api_key=_A.DESCRIBE_CONFIGS, name=f"of {kind} {name}", values=_describe_configs((kind, name, key, "")))
        for kind, name, key, _ in CONFIGURED
    ),
)

SHARED_ROWS = (
    Row(api_key=_A.CREATE_TOPICS, name="", values=_create_topics, versions=(2, 4, 5)),
    Row(
        api_key=_A.DELETE_TOPICS,
        name="named",
        values=_delete_topics(by_id=False),
        versions=(1, 5),
        undo=lambda server: server.restore_topics(),
    ),
    Row(
        api_key=_A.DELETE_TOPICS,
        name="by id",
        values=_delete_topics(by_id=True),
        undo=lambda server: server.restore_topics(),
    ),
    Row(
        api_key=_A.CREATE_PARTITIONS,
        name="",
        values=_plain(
            validate_only=True,
            timeout_ms=5000,
            topics=[{"name": name, "count": 2, "assignments": None} for name in (ORDERS, OTHER, NOTHING)],
        ),
    ),
    Row(api_key=_A.ALTER_CONFIGS, name="", values=_alter_configs(*CONFIGURED)),
    Row(api_key=_A.INCREMENTAL_ALTER_CONFIGS, name="", values=_alter_configs(*CONFIGURED)),
    Row(
        api_key=_A.ELECT_LEADERS,
        name="",
        versions=(0, 1),
        values=_plain(topic_partitions=[{"topic": name, "partitions": [0]} for name in (ORDERS, NOTHING)]),
    ),
    Row(api_key=_A.ELECT_LEADERS, name="everywhere", versions=(0,), values=_plain(topic_partitions=None)),
    Row(api_key=_A.ALTER_PARTITION_REASSIGNMENTS, name="", values=_partitions(partition_index=0, replicas=None)),
    Row(api_key=_A.LIST_PARTITION_REASSIGNMENTS, name="", values=_plain(topics=None)),
    Row(api_key=_A.DESCRIBE_QUORUM, name="", versions=(0, 1), values=_plain(**_of_log())),
    Row(
        api_key=_A.UPDATE_FEATURES,
        name="",
        versions=(1,),
        values=_plain(validate_only=True, feature_updates=[{"feature": "no.such.feature", "max_version_level": 1}]),
    ),
    Row(api_key=_A.UNREGISTER_BROKER, name="", values=_plain(broker_id=NOBODY)),
    Row(
        api_key=_A.DESCRIBE_ACLS, name="of nobody", versions=(1,), values=_plain(**acl_filter(principal="User:nobody"))
    ),
    Row(
        api_key=_A.DESCRIBE_ACLS,
        name="about orders",
        values=_plain(**acl_filter(principal="User:alice", pattern=PatternType.MATCH, name=ORDERS)),
    ),
    Row(api_key=_A.CREATE_ACLS, name="", versions=(1,), values=_plain(creations=[_NO_ENTRY, _NO_ENTRY])),
    Row(
        api_key=_A.DELETE_ACLS, name="", versions=(1,), values=_plain(filters=[acl_filter(principal="User:nobody")] * 2)
    ),
    Row(api_key=_A.ALTER_CLIENT_QUOTAS, name="", versions=(0,), values=_plain(entries=[_QUOTA], validate_only=True)),
    Row(
        api_key=_A.ALTER_USER_SCRAM_CREDENTIALS,
        name="",
        values=_plain(
            deletions=[{"name": "nobody", "mechanism": 1}],
            upsertions=[
                {"name": "weak", "mechanism": 1, "iterations": 1, "salt": b"salt", "salted_password": b"salted"}
            ],
        ),
    ),
    Row(
        api_key=_A.ADD_RAFT_VOTER,
        name="",
        values=_plain(
            cluster_id=FOREIGN_CLUSTER,
            voter_id=NOBODY,
            voter_directory_id=NO_SUCH_ID,
            timeout_ms=1000,
            listeners=[{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}],
        ),
    ),
    Row(
        api_key=_A.REMOVE_RAFT_VOTER,
        name="",
        values=_plain(cluster_id=FOREIGN_CLUSTER, voter_id=NOBODY, voter_directory_id=NO_SUCH_ID),
    ),
)
"""Served by brokers, who pass them on, and by controllers."""

CONTROLLERS_ROWS = (
    Row(api_key=_A.FETCH, name="of the metadata log", values=_fetch_metadata_log, on_controller=True),
    Row(
        api_key=_A.DESCRIBE_CLUSTER,
        name="",
        on_controller=True,
        values=_plain(include_cluster_authorized_operations=True, endpoint_type=2),
    ),
    Row(api_key=_A.DESCRIBE_CONFIGS, name="", on_controller=True, values=_describe_configs(CONFIGURED[0])),
    Row(
        api_key=_A.VOTE,
        name="",
        on_controller=True,
        values=_plain(cluster_id=FOREIGN_CLUSTER, **_of_log(replica_epoch=1, replica_id=NOBODY)),
    ),
    Row(
        api_key=_A.BEGIN_QUORUM_EPOCH,
        name="",
        on_controller=True,
        values=_plain(cluster_id=FOREIGN_CLUSTER, **_of_log(leader_id=NOBODY)),
    ),
    Row(
        api_key=_A.END_QUORUM_EPOCH,
        name="",
        on_controller=True,
        values=_plain(cluster_id=FOREIGN_CLUSTER, **_of_log(leader_id=NOBODY)),
    ),
    Row(
        api_key=_A.FETCH_SNAPSHOT,
        name="",
        on_controller=True,
        values=_plain(cluster_id=FOREIGN_CLUSTER, topics=[{"name": METADATA_TOPIC, "partitions": [{"partition": 0}]}]),
    ),
    Row(
        api_key=_A.UPDATE_RAFT_VOTER,
        name="",
        on_controller=True,
        values=_plain(cluster_id=FOREIGN_CLUSTER, voter_id=NOBODY, voter_directory_id=NO_SUCH_ID),
    ),
    Row(
        api_key=_A.BROKER_REGISTRATION,
        name="",
        on_controller=True,
        values=_plain(broker_id=NOBODY, cluster_id=FOREIGN_CLUSTER),
    ),
    Row(api_key=_A.BROKER_HEARTBEAT, name="", on_controller=True, values=_plain(**_move(NOBODY))),
    Row(api_key=_A.ALLOCATE_PRODUCER_IDS, name="", on_controller=True, values=_plain(**_move(NOBODY))),
    Row(
        api_key=_A.ALTER_PARTITION,
        name="",
        on_controller=True,
        values=lambda s, _: _move(NOBODY) | {"topics": [{"topic_id": s.topic_ids[ORDERS], "partitions": []}]},
    ),
    Row(
        api_key=_A.CONTROLLER_REGISTRATION,
        name="",
        on_controller=True,
        values=_plain(controller_id=NOBODY, incarnation_id=NO_SUCH_ID),
        only_refusals=True,  # Kafka takes a controller without any feature
    ),
    Row(api_key=_A.ASSIGN_REPLICAS_TO_DIRS, name="", on_controller=True, values=_plain(**_move(NOBODY))),
    Row(
        api_key=_A.ENVELOPE,
        name="for alice",
        on_controller=True,
        values=_envelope(_A.LIST_PARTITION_REASSIGNMENTS, "alice", {"topics": None}),
    ),
    Row(
        api_key=_A.ENVELOPE,
        name="for admin",
        on_controller=True,
        values=_envelope(_A.LIST_PARTITION_REASSIGNMENTS, "admin", {"topics": None}),
    ),
    Row(
        api_key=_A.ENVELOPE,
        name="not to be passed on",
        on_controller=True,
        values=_envelope(_A.LIST_GROUPS, "admin", {}),
    ),
)

ROWS = (*CLIENTS_ROWS, *SHARED_ROWS, *(replace(row, on_controller=True) for row in SHARED_ROWS), *CONTROLLERS_ROWS)
