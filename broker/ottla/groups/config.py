"""Settings of the group coordinator; keys and defaults are Kafka's."""

from dataclasses import dataclass

from ottla.groups.migration.policy import MigrationPolicy

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Limits and times of the group coordinator, by the keys of ``server.properties``."""

    min_session_timeout_ms: int = 6_000
    """``group.min.session.timeout.ms``"""
    max_session_timeout_ms: int = 1_800_000
    """``group.max.session.timeout.ms``"""
    initial_rebalance_delay_ms: int = 3_000
    """``group.initial.rebalance.delay.ms``: how long the first generation of a group waits for more members."""
    max_size: int = 2**31 - 1
    """``group.max.size``: members of one group; while it rebalances, those that have joined."""
    offset_metadata_max_bytes: int = 4_096
    """``offset.metadata.max.bytes``"""
    offsets_retention_ms: int = 10_080 * MINUTE_MS
    """``offsets.retention.minutes``"""
    offsets_retention_check_interval_ms: int = 600_000
    """``offsets.retention.check.interval.ms``"""
    offset_commit_timeout_ms: int = 5_000
    """``offsets.commit.timeout.ms``: how long a response waits for its records to be committed."""
    new_member_join_timeout_ms: int = 300_000
    """Kafka's constant: the session of a new member, which cannot send heartbeats before it has received its id."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """``group.consumer.assignors``: server-side assignors; the first is the default."""
    consumer_max_size: int = 2**31 - 1
    """``group.consumer.max.size``: members of one consumer group."""
    consumer_session_timeout_ms: int = 45_000
    """``group.consumer.session.timeout.ms``; a group may have its own, as of the next two."""
    consumer_heartbeat_interval_ms: int = 5_000
    """``group.consumer.heartbeat.interval.ms``"""
    consumer_settling_heartbeat_interval_ms: int = 500
    """``ottla.group.consumer.settling.heartbeat.interval.ms``: for 10 s after a change of the epoch; 0 for no other."""
    consumer_assignment_interval_ms: int = 1_000
    """``group.consumer.assignment.interval.ms``: least time from one target assignment to the next."""
    consumer_session_timeout_bounds_ms: tuple[int, int] = (45_000, 60_000)
    """``group.consumer.min.session.timeout.ms`` and its maximum: bounds of a group's own value."""
    consumer_heartbeat_interval_bounds_ms: tuple[int, int] = (5_000, 15_000)
    """``group.consumer.min.heartbeat.interval.ms`` and its maximum."""
    consumer_assignment_interval_bounds_ms: tuple[int, int] = (0, 15_000)
    """``group.consumer.min.assignment.interval.ms`` and its maximum."""
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """``group.consumer.migration.policy``: how a group with members may change its protocol."""
    consumer_regex_refresh_interval_ms: int = 600_000
    """``group.consumer.regex.refresh.interval.ms``"""
    share_max_size: int = 200
    """``group.share.max.size``: members of one share group."""
    share_session_timeout_ms: int = 45_000
    """``group.share.session.timeout.ms``; a group may have its own, as of the next two."""
    share_heartbeat_interval_ms: int = 5_000
    """``group.share.heartbeat.interval.ms``"""
    share_assignment_interval_ms: int = 1_000
    """``group.share.assignment.interval.ms``: least time from one target assignment to the next."""
    share_session_timeout_bounds_ms: tuple[int, int] = (45_000, 60_000)
    """``group.share.min.session.timeout.ms`` and its maximum: bounds of a group's own value."""
    share_heartbeat_interval_bounds_ms: tuple[int, int] = (5_000, 15_000)
    """``group.share.min.heartbeat.interval.ms`` and its maximum."""
    share_assignment_interval_bounds_ms: tuple[int, int] = (0, 15_000)
    """``group.share.min.assignment.interval.ms`` and its maximum."""
    share_initialize_retry_interval_ms: int = 30_000
    """``group.share.initialize.retry.interval.ms``: after which the state of share-partitions is created again."""
    streams_max_size: int = 2**31 - 1
    """``group.streams.max.size``: members of one streams group."""
    streams_session_timeout_ms: int = 45_000
    """``group.streams.session.timeout.ms``; a group may have its own, as of the next four."""
    streams_heartbeat_interval_ms: int = 5_000
    """``group.streams.heartbeat.interval.ms``"""
    streams_assignment_interval_ms: int = 1_000
    """``group.streams.assignment.interval.ms``: least time from one target assignment to the next."""
    streams_initial_rebalance_delay_ms: int = 3_000
    """``group.streams.initial.rebalance.delay.ms``: how long a new streams group waits for more members."""
    streams_standby_replicas: int = 0
    """``group.streams.num.standby.replicas``: standby tasks of each stateful task."""
    streams_session_timeout_bounds_ms: tuple[int, int] = (45_000, 60_000)
    """``group.streams.min.session.timeout.ms`` and its maximum: bounds of a group's own value."""
    streams_heartbeat_interval_bounds_ms: tuple[int, int] = (5_000, 15_000)
    """``group.streams.min.heartbeat.interval.ms`` and its maximum."""
    streams_assignment_interval_bounds_ms: tuple[int, int] = (0, 15_000)
    """``group.streams.min.assignment.interval.ms`` and its maximum."""
    streams_standby_replicas_max: int = 2
    """``group.streams.max.standby.replicas``: bound of a group's own value."""
