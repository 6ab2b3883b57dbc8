"""The APIs that this release serves: one row per API key. A handler's module is imported upon its first request.

An idle node imports the others as soon as it is ready: without free file descriptors it could not do so later.
The versions are listed here as well as at the handler, so that ApiVersions does not import sixty modules; `find` fails
if the two differ, and a test checks every row.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from ottla.handlers.api import SERVED, ListenerRole, Served
from ottla.wire.messages.registry import ApiKey


class Row(NamedTuple):
    """A served API: the module in `ottla.handlers`, and the versions that it serves."""

    module: str
    first_version: int
    last_version: int


CATALOG: dict[ApiKey, Row] = {
    ApiKey.PRODUCE: Row("produce", 3, 13),
    ApiKey.FETCH: Row("fetch", 4, 18),
    ApiKey.LIST_OFFSETS: Row("list_offsets", 1, 11),
    ApiKey.OFFSET_COMMIT: Row("offset_commit", 2, 10),
    ApiKey.OFFSET_FETCH: Row("offset_fetch", 1, 10),
    ApiKey.FIND_COORDINATOR: Row("find_coordinator", 0, 6),
    ApiKey.JOIN_GROUP: Row("join_group", 0, 9),
    ApiKey.HEARTBEAT: Row("heartbeat", 0, 4),
    ApiKey.LEAVE_GROUP: Row("leave_group", 0, 5),
    ApiKey.SYNC_GROUP: Row("sync_group", 0, 5),
    ApiKey.DESCRIBE_GROUPS: Row("describe_groups", 0, 6),
    ApiKey.LIST_GROUPS: Row("list_groups", 0, 5),
    ApiKey.DELETE_GROUPS: Row("delete_groups", 0, 2),
    ApiKey.OFFSET_DELETE: Row("offset_delete", 0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Row("consumer_group_heartbeat", 0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Row("consumer_group_describe", 0, 1),
    ApiKey.SHARE_GROUP_HEARTBEAT: Row("share_group_heartbeat", 1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: Row("share_group_describe", 1, 1),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Row("streams_group_heartbeat", 0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: Row("streams_group_describe", 0, 0),
    ApiKey.SHARE_FETCH: Row("share_fetch", 1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: Row("share_acknowledge", 1, 2),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Row("describe_share_group_offsets", 0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Row("alter_share_group_offsets", 0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Row("delete_share_group_offsets", 0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Row("initialize_share_group_state", 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: Row("read_share_group_state", 0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: Row("write_share_group_state", 0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: Row("delete_share_group_state", 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Row("read_share_group_state_summary", 0, 1),
    ApiKey.SASL_HANDSHAKE: Row("sasl_handshake", 0, 1),
    ApiKey.API_VERSIONS: Row("api_versions", 0, 4),
    ApiKey.DELETE_RECORDS: Row("delete_records", 0, 2),
    ApiKey.INIT_PRODUCER_ID: Row("init_producer_id", 0, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: Row("add_partitions_to_txn", 0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: Row("add_offsets_to_txn", 0, 4),
    ApiKey.END_TXN: Row("end_txn", 0, 5),
    ApiKey.WRITE_TXN_MARKERS: Row("write_txn_markers", 1, 2),
    ApiKey.TXN_OFFSET_COMMIT: Row("txn_offset_commit", 0, 5),
    ApiKey.DESCRIBE_TRANSACTIONS: Row("describe_transactions", 0, 0),
    ApiKey.LIST_TRANSACTIONS: Row("list_transactions", 0, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row("offset_for_leader_epoch", 2, 4),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Row("alter_replica_log_dirs", 1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Row("describe_log_dirs", 1, 5),
    ApiKey.DESCRIBE_PRODUCERS: Row("describe_producers", 0, 0),
    ApiKey.SASL_AUTHENTICATE: Row("sasl_authenticate", 0, 2),
    ApiKey.METADATA: Row("metadata", 0, 13),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Row("describe_topic_partitions", 0, 0),
    ApiKey.DESCRIBE_CLUSTER: Row("describe_cluster", 0, 2),
    ApiKey.CREATE_TOPICS: Row("create_topics", 2, 7),
    ApiKey.DELETE_TOPICS: Row("delete_topics", 1, 6),
    ApiKey.CREATE_PARTITIONS: Row("create_partitions", 0, 3),
    ApiKey.DESCRIBE_CONFIGS: Row("describe_configs", 1, 4),
    ApiKey.ALTER_CONFIGS: Row("alter_configs", 0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row("incremental_alter_configs", 0, 1),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Row("get_telemetry_subscriptions", 0, 0),
    ApiKey.PUSH_TELEMETRY: Row("push_telemetry", 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: Row("list_config_resources", 0, 1),
    ApiKey.ELECT_LEADERS: Row("elect_leaders", 0, 2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Row("alter_partition_reassignments", 0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Row("list_partition_reassignments", 0, 0),
    ApiKey.DESCRIBE_QUORUM: Row("describe_quorum", 0, 2),
    ApiKey.UPDATE_FEATURES: Row("update_features", 0, 2),
    ApiKey.UNREGISTER_BROKER: Row("unregister_broker", 0, 0),
    ApiKey.DESCRIBE_ACLS: Row("describe_acls", 1, 3),
    ApiKey.CREATE_ACLS: Row("create_acls", 1, 3),
    ApiKey.DELETE_ACLS: Row("delete_acls", 1, 3),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Row("describe_client_quotas", 0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: Row("alter_client_quotas", 0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Row("describe_user_scram_credentials", 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Row("alter_user_scram_credentials", 0, 0),
    ApiKey.CREATE_DELEGATION_TOKEN: Row("create_delegation_token", 1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: Row("renew_delegation_token", 1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Row("expire_delegation_token", 1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Row("describe_delegation_token", 1, 3),
    ApiKey.BROKER_REGISTRATION: Row("broker_registration", 0, 4),
    ApiKey.BROKER_HEARTBEAT: Row("broker_heartbeat", 0, 2),
    ApiKey.VOTE: Row("vote", 0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: Row("begin_quorum_epoch", 0, 1),
    ApiKey.END_QUORUM_EPOCH: Row("end_quorum_epoch", 0, 1),
    ApiKey.FETCH_SNAPSHOT: Row("fetch_snapshot", 0, 1),
    ApiKey.ADD_RAFT_VOTER: Row("add_raft_voter", 0, 1),
    ApiKey.REMOVE_RAFT_VOTER: Row("remove_raft_voter", 0, 0),
    ApiKey.UPDATE_RAFT_VOTER: Row("update_raft_voter", 0, 0),
    ApiKey.ENVELOPE: Row("envelope", 0, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: Row("allocate_producer_ids", 0, 0),
    ApiKey.ALTER_PARTITION: Row("alter_partition", 2, 3),
    ApiKey.CONTROLLER_REGISTRATION: Row("controller_registration", 0, 0),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Row("assign_replicas_to_dirs", 0, 0),
}


CONTROLLER_ONLY_APIS = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
"""APIs between nodes, on the controllers' listeners only."""

CONTROLLER_APIS = CONTROLLER_ONLY_APIS | {
    ApiKey.FETCH,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
}
"""All APIs of a controller's listener; Fetch is for the metadata log only there."""


CLIENT_METRICS_APIS = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""Listed by ApiVersions only on a broker with a receiver of client metrics, so that clients use them only there."""


def is_served_to(role: ListenerRole, api_key: ApiKey) -> bool:
    """Return whether a listener of ``role`` serves ``api_key`` (if this release does at all)."""
    return api_key in CONTROLLER_APIS if role is ListenerRole.CONTROLLER else api_key not in CONTROLLER_ONLY_APIS


def import_handlers() -> Iterator[None]:
    """Import the module of every handler, and its response types, one at a time: 80 ms of CPU, in a few ms each."""
    for row in CATALOG.values():
        import_module(f"ottla.handlers.{row.module}")
        yield


def find(api_key: int, api_version: int) -> Served | None:
    """Return the handler of an API, or None if this release does not serve that version of it."""
    served = SERVED.get(api_key)
    if served is None:
        try:
            row = CATALOG[ApiKey(api_key)]
        except (ValueError, KeyError):
            return None
        import_module(f"ottla.handlers.{row.module}")
        served = SERVED[api_key]
        assert (served.first_version, served.last_version) == (row.first_version, row.last_version), row
    return served if served.first_version <= api_version <= served.last_version else None
