"""Requests of the permission matrix: of every API, as a table.

Every row is safe to be allowed: it changes nothing (validate_only, other cluster ids, brokers that are not there), or
has a function that undoes it.
"""

from dataclasses import replace

from permission_credentials import CLIENT_METRICS_ROWS, CREDENTIAL_ROWS, DESCRIBED_TOKEN_ROWS
from permission_requests import (
    CONFIG_BROKER,
    CONFIG_GROUP,
    CONFIG_TOPIC,
    CONFIGURED,
    NO_ENTRY,
    QUOTA,
    acl_filter,
    alter_configs,
    always,
    commit,
    consumer_beat,
    create_topics,
    delete_topics,
    describe_configs,
    describe_consumer_groups,
    describe_groups,
    envelope,
    fetch,
    fetch_metadata_log,
    fetch_offsets,
    find,
    metadata,
    of_broker,
    of_each_topic,
    of_log,
    produce,
)
from permission_row import (
    ASKED,
    AUTO,
    FOREIGN_CLUSTER,
    METADATA_TOPIC,
    NO_BROKER,
    NO_SUCH_ID,
    NOTHING,
    ORDERS,
    OTHER,
    READERS,
    STRANGERS,
    TXN,
    Row,
)
from permission_share_groups import SHARE_GROUP_ROWS
from permission_streams_groups import STREAMS_GROUP_ROWS

from ottla.errors import ErrorCode
from ottla.wire.acl_codes import PatternType
from ottla.wire.messages.registry import ApiKey

_A = ApiKey
_TOPICS_NAMED = [{"name": name} for name in (ORDERS, OTHER, NOTHING)]

CLIENTS_ROWS = (
    Row(
        api_key=_A.API_VERSIONS,
        name="",
        values=always(client_software_name="m", client_software_version="1"),
        compares_errors_only=True,
    ),
    Row(api_key=_A.SASL_HANDSHAKE, name="again", values=always(mechanism="PLAIN")),
    Row(api_key=_A.SASL_AUTHENTICATE, name="again", values=always(auth_bytes=b"")),
    Row(api_key=_A.PRODUCE, name="acks=1", values=produce(1), versions=(3, 7, 12)),
    Row(api_key=_A.PRODUCE, name="acks=0", values=produce(0), versions=(3, 12)),
    Row(api_key=_A.FETCH, name="", values=fetch(), versions=(4, 12)),
    Row(api_key=_A.FETCH, name="session", values=fetch(session=True), versions=(12,)),
    Row(api_key=_A.FETCH, name="as a follower", values=fetch(replica=NO_BROKER), versions=(11, 14)),
    Row(
        api_key=_A.LIST_OFFSETS,
        name="",
        versions=(1,),
        values=lambda s, v: of_each_topic(partition_index=0, timestamp=-2)(s, v) | {"replica_id": -1},
    ),
    Row(
        api_key=_A.OFFSET_COMMIT, name="", values=commit, versions=(2, 9), undo=lambda server: server.restore_offsets()
    ),
    Row(api_key=_A.OFFSET_FETCH, name="named", values=fetch_offsets(all_topics=False), versions=(1, 2, 7, 9)),
    Row(api_key=_A.OFFSET_FETCH, name="all", values=fetch_offsets(all_topics=True), versions=(2, 7, 9)),
    Row(api_key=_A.FIND_COORDINATOR, name="groups", values=find(0, READERS, STRANGERS), versions=(0, 2)),
    Row(
        api_key=_A.FIND_COORDINATOR,
        name="transactions",
        values=find(1, TXN, "pay"),
        versions=(1,),
        compares_errors_only=True,
    ),
    Row(
        api_key=_A.JOIN_GROUP,
        name="",
        versions=(0,),
        values=always(
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
        values=always(group_id=READERS, generation_id=1, member_id="nobody"),
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
        values=always(group_id=READERS, generation_id=1, member_id="nobody"),
    ),
    Row(api_key=_A.DESCRIBE_GROUPS, name="", versions=(0, 5), values=describe_groups),
    Row(api_key=_A.CONSUMER_GROUP_HEARTBEAT, name="of one topic", versions=(0,), values=consumer_beat(ORDERS)),
    Row(api_key=_A.CONSUMER_GROUP_HEARTBEAT, name="of two topics", versions=(0,), values=consumer_beat(ORDERS, OTHER)),
    Row(api_key=_A.CONSUMER_GROUP_DESCRIBE, name="", versions=(0,), values=describe_consumer_groups),
    Row(api_key=_A.LIST_GROUPS, name="", versions=(0,), values=always()),
    Row(
        api_key=_A.DELETE_GROUPS,
        name="",
        values=always(groups_names=[READERS, STRANGERS]),
        undo=lambda server: server.restore_offsets(),
    ),
    Row(
        api_key=_A.OFFSET_DELETE,
        name="",
        undo=lambda server: server.restore_offsets(),
        values=lambda s, v: of_each_topic(partition_index=0)(s, v) | {"group_id": READERS},
    ),
    Row(api_key=_A.DELETE_RECORDS, name="", values=of_each_topic(partition_index=0, offset=0)),
    Row(api_key=_A.INIT_PRODUCER_ID, name="idempotent", versions=(0,), values=always(transactional_id=None)),
    Row(
        api_key=_A.INIT_PRODUCER_ID,
        name="transactional",
        values=always(transactional_id=TXN, transaction_timeout_ms=60000),
        compares_errors_only=True,
    ),
    Row(
        api_key=_A.ADD_PARTITIONS_TO_TXN,
        name="of a producer",
        versions=(0, 3),
        values=lambda _, v: (
            {
                "v3_and_below_transactional_id": TXN,
                "v3_and_below_producer_id": 1,
                "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in (ORDERS, OTHER, NOTHING)],
            }
            if v < 4
            else {"transactions": [{"transactional_id": TXN, "topics": [{"name": ORDERS, "partitions": [0]}]}]}
        ),
        compares_errors_only=True,
    ),
    Row(
        api_key=_A.ADD_OFFSETS_TO_TXN,
        name="",
        versions=(0,),
        values=always(transactional_id=TXN, producer_id=1, group_id=READERS),
        compares_errors_only=True,
    ),
    Row(
        api_key=_A.END_TXN,
        name="",
        versions=(0,),
        values=always(transactional_id=TXN, producer_id=1),
        compares_errors_only=True,
    ),
    Row(
        api_key=_A.DESCRIBE_TRANSACTIONS,
        name="",
        values=always(transactional_ids=[TXN, "pay"]),
        compares_errors_only=True,
    ),
    Row(api_key=_A.LIST_TRANSACTIONS, name="", versions=(0, 1), values=always(), compares_errors_only=True),
    Row(
        api_key=_A.TXN_OFFSET_COMMIT,
        name="",
        versions=(0, 4),
        values=lambda _, v: {
            "transactional_id": TXN,
            "group_id": READERS,
            "producer_id": 1,
            "topics": [{"name": name, "partitions": [{"partition_index": 99}]} for name in (ORDERS, OTHER, NOTHING)],
        },
    ),
    Row(
        api_key=_A.WRITE_TXN_MARKERS,
        name="",
        versions=(1,),
        values=always(
            markers=[
                {
                    "producer_id": 1,
                    "coordinator_epoch": -1,
                    "topics": [{"name": NOTHING, "partition_indexes": [0]}],
                }
            ]
        ),
    ),
    *SHARE_GROUP_ROWS,
    *STREAMS_GROUP_ROWS,
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
        api_key=_A.ALTER_REPLICA_LOG_DIRS,
        name="",
        values=always(dirs=[{"path": "/nowhere", "topics": [{"name": ORDERS, "partitions": [0]}]}]),
    ),
    Row(
        api_key=_A.DESCRIBE_LOG_DIRS,
        name="",
        versions=(1, 2),
        values=always(topics=[{"topic": OTHER, "partitions": [0]}]),
    ),
    Row(
        api_key=_A.DESCRIBE_PRODUCERS,
        name="",
        values=always(topics=[{"name": name, "partition_indexes": [0]} for name in (ORDERS, OTHER, NOTHING)]),
    ),
    Row(api_key=_A.METADATA, name="named", values=metadata(ASKED), versions=(0, 4, 8)),
    Row(api_key=_A.METADATA, name="by id", values=metadata((ORDERS, OTHER, NOTHING), by_id=True)),
    Row(api_key=_A.METADATA, name="all", values=metadata(None), versions=(0, 1, 10)),
    Row(
        api_key=_A.METADATA,
        name="that creates",
        values=metadata((AUTO,), creates=True),
        versions=(4,),
        undo=lambda server: server.drop_auto_created(),
        undone_after=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    Row(api_key=_A.DESCRIBE_TOPIC_PARTITIONS, name="named", values=always(topics=_TOPICS_NAMED)),
    Row(api_key=_A.DESCRIBE_TOPIC_PARTITIONS, name="all", values=always()),
    Row(
        api_key=_A.DESCRIBE_TOPIC_PARTITIONS,
        name="after a cursor",
        values=always(topics=_TOPICS_NAMED, cursor={"topic_name": ORDERS, "partition_index": 0}),
    ),
    Row(api_key=_A.DESCRIBE_CLUSTER, name="", values=always(include_cluster_authorized_operations=True)),
    Row(
        api_key=_A.LIST_CONFIG_RESOURCES,
        name="",
        versions=(0,),
        # Not of loggers: this release has none to configure.
        values=lambda _, v: {"resource_types": [CONFIG_TOPIC, CONFIG_BROKER, CONFIG_GROUP]} if v else {},
    ),
    *DESCRIBED_TOKEN_ROWS,
    *CLIENT_METRICS_ROWS,
    Row(api_key=_A.DESCRIBE_CLIENT_QUOTAS, name="", values=always(components=[])),
    # Kafka's controllers advertise this API and do not serve it. No user at all instead of null: when that is denied,
    # Kafka's brokers send no response.
    Row(api_key=_A.DESCRIBE_USER_SCRAM_CREDENTIALS, name="", values=always(users=[])),
    Row(api_key=_A.DESCRIBE_USER_SCRAM_CREDENTIALS, name="of one", values=always(users=[{"name": "nobody"}])),
    *(
        Row(api_key=_A.DESCRIBE_CONFIGS, name=f"of {kind} {name}", values=describe_configs((kind, name, key, "")))
        for kind, name, key, _ in CONFIGURED
    ),
)

SHARED_ROWS = (
    Row(api_key=_A.CREATE_TOPICS, name="", values=create_topics, versions=(2, 4, 5)),
    Row(
        api_key=_A.DELETE_TOPICS,
        name="named",
        values=delete_topics(by_id=False),
        versions=(1, 5),
        undo=lambda server: server.restore_topics(),
    ),
    Row(
        api_key=_A.DELETE_TOPICS,
        name="by id",
        values=delete_topics(by_id=True),
        undo=lambda server: server.restore_topics(),
    ),
    Row(
        api_key=_A.CREATE_PARTITIONS,
        name="",
        values=always(
            validate_only=True,
            timeout_ms=5000,
            topics=[{"name": name, "count": 2, "assignments": None} for name in (ORDERS, OTHER, NOTHING)],
        ),
    ),
    Row(api_key=_A.ALTER_CONFIGS, name="", values=alter_configs(*CONFIGURED)),
    Row(api_key=_A.INCREMENTAL_ALTER_CONFIGS, name="", values=alter_configs(*CONFIGURED)),
    Row(
        api_key=_A.ELECT_LEADERS,
        name="",
        versions=(0, 1),
        values=always(topic_partitions=[{"topic": name, "partitions": [0]} for name in (ORDERS, NOTHING)]),
    ),
    Row(api_key=_A.ELECT_LEADERS, name="everywhere", versions=(0,), values=always(topic_partitions=None)),
    Row(api_key=_A.ALTER_PARTITION_REASSIGNMENTS, name="", values=of_each_topic(partition_index=0, replicas=None)),
    Row(api_key=_A.LIST_PARTITION_REASSIGNMENTS, name="", values=always(topics=None)),
    Row(api_key=_A.DESCRIBE_QUORUM, name="", versions=(0, 1), values=always(**of_log())),
    Row(
        api_key=_A.UPDATE_FEATURES,
        name="",
        versions=(1,),
        values=always(validate_only=True, feature_updates=[{"feature": "no.such.feature", "max_version_level": 1}]),
    ),
    Row(api_key=_A.UNREGISTER_BROKER, name="", values=always(broker_id=NO_BROKER)),
    Row(
        api_key=_A.DESCRIBE_ACLS,
        name="unknown user",
        versions=(1,),
        values=always(**acl_filter(principal="User:nobody")),
    ),
    Row(
        api_key=_A.DESCRIBE_ACLS,
        name="about orders",
        values=always(**acl_filter(principal="User:alice", pattern=PatternType.MATCH, name=ORDERS)),
    ),
    Row(api_key=_A.CREATE_ACLS, name="", versions=(1,), values=always(creations=[NO_ENTRY, NO_ENTRY])),
    Row(
        api_key=_A.DELETE_ACLS, name="", versions=(1,), values=always(filters=[acl_filter(principal="User:nobody")] * 2)
    ),
    Row(api_key=_A.ALTER_CLIENT_QUOTAS, name="", versions=(0,), values=always(entries=[QUOTA], validate_only=True)),
    *CREDENTIAL_ROWS,
    Row(
        api_key=_A.ADD_RAFT_VOTER,
        name="",
        values=always(
            cluster_id=FOREIGN_CLUSTER,
            voter_id=NO_BROKER,
            voter_directory_id=NO_SUCH_ID,
            timeout_ms=1000,
            listeners=[{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}],
        ),
    ),
    Row(
        api_key=_A.REMOVE_RAFT_VOTER,
        name="",
        values=always(cluster_id=FOREIGN_CLUSTER, voter_id=NO_BROKER, voter_directory_id=NO_SUCH_ID),
    ),
)
"""Served by brokers, who pass them on, and by controllers."""

CONTROLLERS_ROWS = (
    Row(api_key=_A.FETCH, name="of the metadata log", values=fetch_metadata_log, on_controller=True),
    Row(
        api_key=_A.DESCRIBE_CLUSTER,
        name="",
        on_controller=True,
        values=always(include_cluster_authorized_operations=True, endpoint_type=2),
    ),
    Row(api_key=_A.DESCRIBE_CONFIGS, name="", on_controller=True, values=describe_configs(CONFIGURED[0])),
    Row(
        api_key=_A.VOTE,
        name="",
        on_controller=True,
        values=always(cluster_id=FOREIGN_CLUSTER, **of_log(replica_epoch=1, replica_id=NO_BROKER)),
    ),
    Row(
        api_key=_A.BEGIN_QUORUM_EPOCH,
        name="",
        on_controller=True,
        values=always(cluster_id=FOREIGN_CLUSTER, **of_log(leader_id=NO_BROKER)),
    ),
    Row(
        api_key=_A.END_QUORUM_EPOCH,
        name="",
        on_controller=True,
        values=always(cluster_id=FOREIGN_CLUSTER, **of_log(leader_id=NO_BROKER)),
    ),
    Row(
        api_key=_A.FETCH_SNAPSHOT,
        name="",
        on_controller=True,
        values=always(cluster_id=FOREIGN_CLUSTER, topics=[{"name": METADATA_TOPIC, "partitions": [{"partition": 0}]}]),
    ),
    Row(
        api_key=_A.UPDATE_RAFT_VOTER,
        name="",
        on_controller=True,
        values=always(cluster_id=FOREIGN_CLUSTER, voter_id=NO_BROKER, voter_directory_id=NO_SUCH_ID),
    ),
    Row(
        api_key=_A.BROKER_REGISTRATION,
        name="",
        on_controller=True,
        values=always(broker_id=NO_BROKER, cluster_id=FOREIGN_CLUSTER),
    ),
    Row(api_key=_A.BROKER_HEARTBEAT, name="", on_controller=True, values=always(**of_broker(NO_BROKER))),
    Row(api_key=_A.ALLOCATE_PRODUCER_IDS, name="", on_controller=True, values=always(**of_broker(NO_BROKER))),
    Row(
        api_key=_A.ALTER_PARTITION,
        name="",
        on_controller=True,
        values=lambda s, _: of_broker(NO_BROKER) | {"topics": [{"topic_id": s.topic_ids[ORDERS], "partitions": []}]},
    ),
    Row(
        api_key=_A.CONTROLLER_REGISTRATION,
        name="",
        on_controller=True,
        values=always(controller_id=NO_BROKER, incarnation_id=NO_SUCH_ID),
        compares_errors_only=True,  # Kafka accepts a controller without any feature
    ),
    Row(api_key=_A.ASSIGN_REPLICAS_TO_DIRS, name="", on_controller=True, values=always(**of_broker(NO_BROKER))),
    Row(
        api_key=_A.ENVELOPE,
        name="for alice",
        on_controller=True,
        values=envelope(_A.LIST_PARTITION_REASSIGNMENTS, "alice", {"topics": None}),
    ),
    Row(
        api_key=_A.ENVELOPE,
        name="for admin",
        on_controller=True,
        values=envelope(_A.LIST_PARTITION_REASSIGNMENTS, "admin", {"topics": None}),
    ),
    Row(
        api_key=_A.ENVELOPE,
        name="not to be passed on",
        on_controller=True,
        values=envelope(_A.LIST_GROUPS, "admin", {}),
    ),
)

ROWS = (*CLIENTS_ROWS, *SHARED_ROWS, *(replace(row, on_controller=True) for row in SHARED_ROWS), *CONTROLLERS_ROWS)
