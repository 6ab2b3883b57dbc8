"""`ControllerConfig`: the controller's settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.metadata.cluster import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """Settings of the controller from the node's configuration; the defaults are Kafka 4.3's.

    Attributes:
        session_timeout_ms: broker.session.timeout.ms.
        response_timeout_ms: ottla.broker.response.timeout.ms; 0 leaves hanging brokers to their sessions.
        idle_interval_ms: metadata.max.idle.interval.ms: a NoOpRecord at least this often; 0 is never.
        default_partition_count: num.partitions.
        default_replication_factor: default.replication.factor.
        static: settings of server.properties that topics inherit.
        listeners: this controller's advertised listeners, for its registration.
        inter_broker_listener_name: the listener that is probed when a broker's connection breaks.
        unclean_election_interval_ms: unclean.leader.election.interval.ms.
        leader_rebalance_enable: auto.leader.rebalance.enable.
        leader_imbalance_check_interval_ms: leader.imbalance.check.interval.seconds, in ms.
        token_lifetime_ms_max: delegation.token.max.lifetime.ms.
        token_renewal_ms: delegation.token.expiry.time.ms.
        token_expiry_check_interval_ms: delegation.token.expiry.check.interval.ms.
    """

    session_timeout_ms: int = 9_000
    response_timeout_ms: int = 1_000
    idle_interval_ms: int = 500
    default_partition_count: int = 1
    default_replication_factor: int = 1
    static: Mapping[str, str] = field(default_factory=dict)
    listeners: Mapping[str, Listener] = field(default_factory=dict)
    inter_broker_listener_name: str = "PLAINTEXT"
    unclean_election_interval_ms: int = 300_000
    leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    token_lifetime_ms_max: int = 604_800_000
    token_renewal_ms: int = 86_400_000
    token_expiry_check_interval_ms: int = 3_600_000
