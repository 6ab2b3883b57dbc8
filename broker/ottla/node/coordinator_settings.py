"""Settings of a node's coordinators, and of the share-partitions that it leads, from its configuration."""

from ottla.config.node_config import NodeConfig
from ottla.groups.config import MINUTE_MS, GroupConfig
from ottla.groups.migration.policy import MigrationPolicy
from ottla.share_partitions.settings import SharePartitionsConfig
from ottla.share_state.config import ShareStateConfig
from ottla.transactions.config import TransactionConfig


def group_config(config: NodeConfig) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offset_commit_timeout_ms=config.offsets_commit_timeout_ms,
        consumer_assignors=config.group_consumer_assignors,
        consumer_max_size=config.group_consumer_max_size,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_settling_heartbeat_interval_ms=config.ottla_group_consumer_settling_heartbeat_interval_ms,
        consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        consumer_session_timeout_bounds_ms=(
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        consumer_heartbeat_interval_bounds_ms=(
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        consumer_assignment_interval_bounds_ms=(
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
        consumer_migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
        consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        share_max_size=config.group_share_max_size,
        share_session_timeout_ms=config.group_share_session_timeout_ms,
        share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        share_assignment_interval_ms=config.group_share_assignment_interval_ms,
        share_session_timeout_bounds_ms=(
            config.group_share_min_session_timeout_ms,
            config.group_share_max_session_timeout_ms,
        ),
        share_heartbeat_interval_bounds_ms=(
            config.group_share_min_heartbeat_interval_ms,
            config.group_share_max_heartbeat_interval_ms,
        ),
        share_assignment_interval_bounds_ms=(
            config.group_share_min_assignment_interval_ms,
            config.group_share_max_assignment_interval_ms,
        ),
        share_initialize_retry_interval_ms=config.group_share_initialize_retry_interval_ms,
        streams_max_size=config.group_streams_max_size,
        streams_session_timeout_ms=config.group_streams_session_timeout_ms,
        streams_heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        streams_assignment_interval_ms=config.group_streams_assignment_interval_ms,
        streams_initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
        streams_standby_replicas=config.group_streams_num_standby_replicas,
        streams_session_timeout_bounds_ms=(
            config.group_streams_min_session_timeout_ms,
            config.group_streams_max_session_timeout_ms,
        ),
        streams_heartbeat_interval_bounds_ms=(
            config.group_streams_min_heartbeat_interval_ms,
            config.group_streams_max_heartbeat_interval_ms,
        ),
        streams_assignment_interval_bounds_ms=(
            config.group_streams_min_assignment_interval_ms,
            config.group_streams_max_assignment_interval_ms,
        ),
        streams_standby_replicas_max=config.group_streams_max_standby_replicas,
    )


def share_partitions_config(config: NodeConfig) -> SharePartitionsConfig:
    return SharePartitionsConfig(
        record_lock_duration_ms=config.group_share_record_lock_duration_ms,
        record_lock_duration_bounds_ms=(
            config.group_share_min_record_lock_duration_ms,
            config.group_share_max_record_lock_duration_ms,
        ),
        delivery_count_limit=config.group_share_delivery_count_limit,
        delivery_count_limit_bounds=(
            config.group_share_min_delivery_count_limit,
            config.group_share_max_delivery_count_limit,
        ),
        partition_max_record_locks=config.group_share_partition_max_record_locks,
        partition_max_record_locks_bounds=(
            config.group_share_min_partition_max_record_locks,
            config.group_share_max_partition_max_record_locks,
        ),
        share_sessions_max=config.group_share_max_share_sessions,
    )


def transaction_config(config: NodeConfig) -> TransactionConfig:
    return TransactionConfig(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        expiry_check_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )


def share_state_config(config: NodeConfig) -> ShareStateConfig:
    return ShareStateConfig(
        update_records_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
        cold_snapshot_interval_ms=config.share_coordinator_cold_partition_snapshot_interval_ms,
        prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
        write_timeout_ms=config.share_coordinator_write_timeout_ms,
    )
