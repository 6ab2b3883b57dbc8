"""The node's settings of replication, resolved and typed."""

from dataclasses import dataclass

RATE_UNLIMITED = (1 << 63) - 1
EXPANSION_CHECK_INTERVAL_MS = 500
"""Between two checks of the in-sync sets that lack a replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """Settings of one node; the defaults are Kafka 4.3's.

    Attributes:
        inter_broker_listener: name of the listener, on other brokers, that followers fetch from.
        fetcher_count: num.replica.fetchers, fetchers (and connections) to each leader; dynamic.
        lag_time_max_ms: replica.lag.time.max.ms, how long a follower may be behind and still be in sync.
        fetch_wait_max_ms: replica.fetch.wait.max.ms, how long a leader may hold a fetch.
        fetch_min_bytes: replica.fetch.min.bytes.
        fetch_max_bytes: replica.fetch.max.bytes, of one partition.
        fetch_response_max_bytes: replica.fetch.response.max.bytes.
        fetch_backoff_ms: replica.fetch.backoff.ms, the wait after an error.
        socket_timeout_ms: replica.socket.timeout.ms, how long a fetch may stay without a response.
        confirmation_age_max_ms: age up to which the followers' confirmations that this node leads count
            (`ReplicaManager.is_leadership_confirmed`).
        follower_silence_max_ms: how long a follower may send no fetch after a response before commits stop waiting for
            it (`SilentFollowers`); 0 for replica.lag.time.max.ms.
        selector_class: replica.selector.class; empty, or Kafka's RackAwareReplicaSelector.
        leader_throttled_rate: leader.replication.throttled.rate in bytes/s; dynamic.
        follower_throttled_rate: follower.replication.throttled.rate in bytes/s; dynamic.
        directory_move_threads: num.replica.alter.log.dirs.threads, how many moves run; 0: one per directory.
        directory_move_rate: replica.alter.log.dirs.io.max.bytes.per.second; dynamic.
        directory_move_window_count: alter.log.dirs.replication.quota.window.num.
        directory_move_window_size_seconds: alter.log.dirs.replication.quota.window.size.seconds.
        quota_window_count: replication.quota.window.num.
        quota_window_size_seconds: replication.quota.window.size.seconds.
    """

    inter_broker_listener: str = "PLAINTEXT"
    fetcher_count: int = 1
    lag_time_max_ms: int = 30_000
    fetch_wait_max_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 1024 * 1024
    fetch_response_max_bytes: int = 10 * 1024 * 1024
    fetch_backoff_ms: int = 1_000
    socket_timeout_ms: int = 30_000
    confirmation_age_max_ms: int = 1_000
    follower_silence_max_ms: int = 1_000
    selector_class: str = ""
    leader_throttled_rate: int = RATE_UNLIMITED
    follower_throttled_rate: int = RATE_UNLIMITED
    directory_move_threads: int = 0
    directory_move_rate: int = RATE_UNLIMITED
    directory_move_window_count: int = 11
    directory_move_window_size_seconds: int = 1
    quota_window_count: int = 11
    quota_window_size_seconds: int = 1

    @property
    def fetch_age_max_ms(self) -> int:
        """Age of a follower's last fetch up to which it counts as active: it fetches again after each response."""
        return 2 * max(self.fetch_wait_max_ms, EXPANSION_CHECK_INTERVAL_MS)
