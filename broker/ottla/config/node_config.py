"""`NodeConfig`: one node's ``server.properties``, parsed and validated as a whole. The rest of the node reads this.

A field is named as its key with underscores for dots (``broker.session.timeout.ms`` is ``broker_session_timeout_ms``)
and has the key's unit. Settings that topics inherit (``log.segment.bytes`` ...) are not fields: they go through
`layers`. Dynamic changes of the fields marked dynamic in `broker_keys` come as a new `NodeConfig` (`with_dynamic`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.cordon import cordoned_directories
from ottla.config.key import parse_value
from ottla.config.listeners import Listener, QuorumVoter
from ottla.config.properties import parse_properties
from ottla.config.sasl_settings import SaslSettings
from ottla.types import Endpoint, NodeId

BROKER_ROLE = "broker"
CONTROLLER_ROLE = "controller"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NodeConfig:
    """One node's settings; created by `from_text` or `from_properties`. Its repr shows nothing: there are secrets."""

    originals: Mapping[str, str]
    """The raw values of ``server.properties`` by key: the static layer of DescribeConfigs."""
    dynamic: Mapping[str, str] = field(default_factory=dict)
    """Raw values that were changed while the node runs; they override `originals`. For keys without a field."""
    warnings: tuple[str, ...] = ()
    """One sentence per key that is accepted but not acted on; the runtime logs them."""

    # Identity and listeners of this node.
    node_id: NodeId
    process_roles: frozenset[str]
    broker_rack: str | None
    listeners: tuple[Listener, ...]
    """Every listener that this node opens, in the order of the file."""
    advertised_listeners: tuple[Listener, ...]
    """The addresses that brokers advertise; an empty host stands for the host's name, which the runtime knows."""
    advertised_controller_listeners: tuple[Listener, ...]
    controller_listener_names: tuple[str, ...]
    inter_broker_listener_name: str
    listener_security_protocol_map: Mapping[str, str]
    sasl: SaslSettings
    """Mechanisms of listeners with SASL, and this node's own logins at other nodes."""
    controller_quorum_voters: tuple[QuorumVoter, ...]
    """Static voters (kraft.version 0); empty if the voter set is in the metadata log."""
    controller_quorum_bootstrap_servers: tuple[Endpoint, ...]
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    cordoned_log_dirs: tuple[str, ...]
    """As configured; `cordoned_directories` resolves it."""

    # Ottla's own.
    ottla_acks_fsync: bool
    ottla_admin_listener: Endpoint | None
    """Where the admin HTTP server listens; None turns it off."""
    ottla_advertise_dialled_address: bool
    ottla_advertised_host: str
    ottla_broker_response_timeout_ms: int
    """0 for no limit."""
    ottla_client_metrics_receivers: tuple[str, ...]
    ottla_fetch_session_cache_bytes: int
    ottla_group_consumer_settling_heartbeat_interval_ms: int
    """0 for the usual interval."""
    ottla_loop_disk_wait_max_ms: int
    """0 for a node that does not count as alive meanwhile."""
    ottla_loop_stall_ms: int
    """0 for no watch."""
    ottla_loop_stall_disconnect_ms: int
    """0 for no watch."""
    ottla_request_entries_max: int

    # Authorization.
    authorizer_class_name: str
    """Empty for none."""
    super_users: str
    """As ``User:a;User:b``."""
    allow_everyone_if_no_acl_found: bool

    # Connections and requests.
    socket_request_max_bytes: int
    queued_max_request_bytes: int
    """0 or less leaves it to the node."""
    socket_receive_buffer_bytes: int
    socket_send_buffer_bytes: int
    socket_listen_backlog_size: int
    connections_max_idle_ms: int
    connection_failed_authentication_delay_ms: int
    socket_connection_setup_timeout_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    request_timeout_ms: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int

    # Registration and heartbeats of brokers.
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    controlled_shutdown_enable: bool
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    num_partitions: int
    default_replication_factor: int

    unclean_leader_election_interval_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int

    # Replication.
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    replica_selector_class: str | None
    num_replica_fetchers: int
    leader_replication_throttled_rate: int
    replica_alter_log_dirs_io_max_bytes_per_second: int
    num_replica_alter_log_dirs_threads: int | None
    alter_log_dirs_replication_quota_window_num: int
    alter_log_dirs_replication_quota_window_size_seconds: int
    follower_replication_throttled_rate: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int

    # Quotas of clients.
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    max_connection_creation_rate: int

    # The log manager.
    log_retention_check_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int

    # The metadata quorum and its log.
    controller_quorum_election_timeout_ms: int
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    controller_quorum_append_linger_ms: int
    """Kafka's default unless set; only if it is set does the quorum wait."""
    controller_quorum_fetch_max_bytes: int
    controller_quorum_fetch_snapshot_max_bytes: int
    controller_quorum_auto_join_enable: bool
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_idle_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int

    # Groups and offsets.
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_share_delivery_count_limit: int
    group_share_min_delivery_count_limit: int
    group_share_max_delivery_count_limit: int
    group_share_partition_max_record_locks: int
    group_share_min_partition_max_record_locks: int
    group_share_max_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_min_record_lock_duration_ms: int
    group_share_max_record_lock_duration_ms: int
    group_share_max_share_sessions: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_regex_refresh_interval_ms: int
    group_share_max_size: int
    group_share_session_timeout_ms: int
    group_share_min_session_timeout_ms: int
    group_share_max_session_timeout_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_assignment_interval_ms: int
    group_share_min_assignment_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_initialize_retry_interval_ms: int
    group_streams_max_size: int
    group_streams_session_timeout_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_min_assignment_interval_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_num_standby_replicas: int
    group_streams_max_standby_replicas: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int

    # Transactions.
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    delegation_token_expiry_check_interval_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_max_lifetime_ms: int
    delegation_token_secret_key: str | None
    telemetry_max_bytes: int
    transaction_partition_verification_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int

    # State of share groups.
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_write_timeout_ms: int

    @classmethod
    def from_text(cls, text: str) -> "NodeConfig":
        """Parse and validate the text of a ``server.properties``.

        Raises:
            ConfigurationError: names the first wrong key, its value and what is allowed.
        """
        return cls.from_properties(parse_properties(text))

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "NodeConfig":
        """Check ``properties`` and apply Kafka's defaulting rules.

        Raises:
            ConfigurationError: as `from_text`.
        """
        from ottla.config.validation import read_node_config

        return read_node_config(properties)

    @property
    def is_broker(self) -> bool:
        return BROKER_ROLE in self.process_roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER_ROLE in self.process_roles

    @property
    def cordoned_directories(self) -> tuple[str, ...]:
        """The log directories that take no new replicas.

        Raises:
            InvalidConfigError: a dynamic value names a directory that does not exist.
        """
        return cordoned_directories(self.cordoned_log_dirs, self.log_dirs)

    @property
    def super_user_principals(self) -> tuple[str, ...]:
        """The principals that may perform every operation."""
        return tuple(filter(None, (name.strip() for name in self.super_users.split(";"))))

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients and other brokers."""
        return tuple(listener for listener in self.listeners if listener.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners of the quorum."""
        return tuple(listener for listener in self.listeners if listener.name in self.controller_listener_names)

    def with_dynamic(self, dynamic: Mapping[str, str]) -> "NodeConfig":
        """Return these settings overridden by a running broker's changes.

        ``dynamic`` is dynamic defaults and this broker's dynamic values, merged; keys that are not fields are ignored
        here (topics' inherited settings are read by `layers`).

        Raises:
            InvalidConfigError: a value is not valid for its key.
        """
        names = plain_fields()
        changes: dict[str, Any] = {
            names[key]: parse_value(BROKER_KEYS[key], text) for key, text in dynamic.items() if key in names
        }
        return replace(self, dynamic=dict(dynamic), **changes)

    @property
    def properties(self) -> dict[str, str]:
        """The current raw values of all keys."""
        return {**self.originals, **self.dynamic}


@cache
def plain_fields() -> dict[str, str]:
    """Return key -> field for every field whose value is just the parsed value of its key."""
    dotted = {field.name.replace("_", "."): field.name for field in fields(NodeConfig)}
    return {key: name for key, name in dotted.items() if key in BROKER_KEYS and key not in COMPUTED_KEYS}


COMPUTED_KEYS = frozenset(
    {
        "process.roles",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "log.dirs",
        "metadata.log.dir",
        "ottla.admin.listener",
        "max.connections.per.ip.overrides",
    }
)
"""Keys whose field `validation` computes from more than their own value."""
