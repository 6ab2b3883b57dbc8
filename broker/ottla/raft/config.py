"""The quorum's settings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """The defaults are Kafka 4.3's.

    Attributes:
        segment_size_bytes_max: metadata.log.segment.bytes.
        segment_ms: metadata.log.segment.ms.
        retention_size_bytes: metadata.max.retention.bytes, log and snapshots together; -1 keeps everything.
        retention_ms: metadata.max.retention.ms; -1 keeps everything.
        election_timeout_ms: controller.quorum.election.timeout.ms: how long to wait for a leader before an election;
            each time a random part is added.
        election_backoff_ms_max: controller.quorum.election.backoff.max.ms: between elections that were lost.
        fetch_timeout_ms: controller.quorum.fetch.timeout.ms: without a fetch for so long a follower stands for
            election; a leader without fetches from a majority for 1.5 times as long resigns.
        request_timeout_ms: controller.quorum.request.timeout.ms.
        retry_backoff_ms: controller.quorum.retry.backoff.ms: before a failed request is sent again.
        append_linger_ms: controller.quorum.append.linger.ms: how long the leader gathers records before it syncs them;
            0 here, because appends during a sync share the next sync, so that waiting gains little.
        fetch_size_bytes_max: controller.quorum.fetch.max.bytes: requested in one fetch of the log.
        fetch_snapshot_size_bytes_max: controller.quorum.fetch.snapshot.max.bytes: requested in one piece of a snapshot.
        auto_join: controller.quorum.auto.join.enable: a controller that is no voter requests to be added (KIP-853).
        own_principal: the principal that the other controllers authenticate this node as, for log lines.
    """

    segment_size_bytes_max: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_size_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    election_timeout_ms: int = 1_000
    election_backoff_ms_max: int = 1_000
    fetch_timeout_ms: int = 2_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    append_linger_ms: int = 0
    fetch_size_bytes_max: int = 1024 * 1024
    fetch_snapshot_size_bytes_max: int = 1024 * 1024
    auto_join: bool = False
    own_principal: str = "of an unknown principal"
