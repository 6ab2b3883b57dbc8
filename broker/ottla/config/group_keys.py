"""Every key of a group and of a client-metrics subscription that Kafka 4.3 knows.

`GROUP_SYNONYMS` gives the broker's key that a group's key falls back to. Source: GroupConfig, ClientMetricsConfigs.
"""

from typing import Final

from ottla.config.key import ConfigKey
from ottla.config.table import read_table

CONSUMER_ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
CONSUMER_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
CONSUMER_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
SHARE_ASSIGNMENT_INTERVAL: Final = "share.assignment.interval.ms"
SHARE_HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
SHARE_SESSION_TIMEOUT: Final = "share.session.timeout.ms"
STREAMS_ASSIGNMENT_INTERVAL: Final = "streams.assignment.interval.ms"
STREAMS_HEARTBEAT_INTERVAL: Final = "streams.heartbeat.interval.ms"
STREAMS_INITIAL_REBALANCE_DELAY: Final = "streams.initial.rebalance.delay.ms"
STREAMS_SESSION_TIMEOUT: Final = "streams.session.timeout.ms"
STREAMS_STANDBY_REPLICAS: Final = "streams.num.standby.replicas"

GROUP_ROWS = """
consumer.assignment.interval.ms INT 1000 0.. ms cluster-wide acted-on
    Least time between assignments (KIP-848).
consumer.heartbeat.interval.ms INT 5000 1.. ms cluster-wide acted-on
    Heartbeat interval of members (KIP-848).
consumer.session.timeout.ms INT 45000 1.. ms cluster-wide acted-on
    Silence after which a member is removed (KIP-848).
share.assignment.interval.ms INT 1000 0.. ms cluster-wide acted-on
    Rest between assignments.
share.auto.offset.reset STRING latest offset-reset - cluster-wide acted-on
    Where a new share group starts.
share.delivery.count.limit INT 5 2.. - cluster-wide acted-on
    How often a record is delivered.
share.heartbeat.interval.ms INT 5000 1.. ms cluster-wide acted-on
    Heartbeat interval of members.
share.isolation.level STRING read_uncommitted read_committed|read_uncommitted - cluster-wide acted-on
    Whether records of open and aborted transactions are delivered.
share.partition.max.record.locks INT 2000 100.. - cluster-wide acted-on
    Records in flight of one share-partition.
share.record.lock.duration.ms INT 30000 1000.. ms cluster-wide acted-on
    How long a member may hold a record.
share.renew.acknowledge.enable BOOLEAN true - - cluster-wide acted-on
    Whether members may renew their lock of a record.
share.session.timeout.ms INT 45000 1.. ms cluster-wide acted-on
    Silence after which a member is removed.
streams.assignment.interval.ms INT 1000 0.. ms cluster-wide acted-on
    Rest between assignments.
streams.heartbeat.interval.ms INT 5000 1.. ms cluster-wide acted-on
    Heartbeat interval of members.
streams.initial.rebalance.delay.ms INT 3000 0.. ms cluster-wide acted-on
    How long a new group waits for more members.
streams.num.standby.replicas INT 0 0.. - cluster-wide acted-on
    Standby copies of a task.
streams.session.timeout.ms INT 45000 1.. ms cluster-wide acted-on
    Silence after which a member is removed.
"""

CLIENT_METRICS_ROWS = """
interval.ms INT 300000 - ms cluster-wide acted-on
    How often clients push.
match LIST "" list - cluster-wide acted-on
    Which clients, as name=regular-expression,...
metrics LIST "" list - cluster-wide acted-on
    Prefixes of the metrics' names; * for all.
"""

GROUP_KEYS: dict[str, ConfigKey] = read_table(GROUP_ROWS)
CLIENT_METRICS_KEYS: dict[str, ConfigKey] = read_table(CLIENT_METRICS_ROWS)

_WITHOUT_SYNONYM = frozenset({"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"})
GROUP_SYNONYMS: dict[str, str] = {name: f"group.{name}" for name in GROUP_KEYS if name not in _WITHOUT_SYNONYM}
