"""Every key of ``server.properties`` that a KRaft node of Kafka 4.3 knows, and Ottla's own few.

`BROKER_KEYS` holds all of them by name. Source: KafkaConfig, DynamicBrokerConfig (which keys change at run time).
"""

from ottla.config.key import ConfigKey, ConfigValue, InvalidConfigError, parse_value
from ottla.config.table import read_table
from ottla.config.tables import (
    groups,
    log,
    network,
    node,
    quorum,
    quotas_and_metrics,
    security,
    share_and_streams,
    tiered_storage,
    transactions,
)
from ottla.errors import ConfigurationError

OTTLA_ROWS = """
ottla.acks.fsync BOOLEAN false - - read-only acted-on unlisted
    Default of topics: every in-sync replica confirms a record only once it is on stable storage; one fsync serves all.
ottla.admin.listener STRING "" - - read-only acted-on unlisted
    host:port of the admin HTTP server (health, readiness, metrics); empty turns it off.
ottla.advertised.host STRING "" - - read-only acted-on unlisted
    Advertised host of listeners that have none in advertised.listeners; the machine's host name when empty.
ottla.advertise.dialled.address BOOLEAN false - - read-only acted-on unlisted
    Advertise to each client the address that it has connected to; for one node that is reached by several names.
ottla.broker.response.timeout.ms INT 1000 200..60000|0 ms read-only acted-on unlisted
    The controller fences a connected broker that is silent for so long, leaders drop such followers; 0 for neither.
ottla.client.metrics.receivers LIST "" list:metrics|log - read-only acted-on unlisted
    Where metrics that clients push go (KIP-714): the metrics page, the log. Empty: clients are not asked to push.
ottla.fetch.session.cache.bytes LONG 33554432 0.. bytes read-only acted-on unlisted
    Memory for the partitions of all fetch sessions, some 400 bytes each; consumers beyond it have no sessions.
ottla.group.consumer.settling.heartbeat.interval.ms INT 500 100..60000|0 ms read-only acted-on unlisted
    Members of consumer groups heartbeat so often for 10 s after a change of the group; 0: as often as usual.
ottla.loop.disk.wait.max.ms INT 600000 10000..86400000|0 ms read-only acted-on unlisted
    A node whose event loop waits for a disk counts as alive for so long, then /healthz fails; 0: fails at once.
ottla.loop.stall.ms INT 500 100..60000|0 ms read-only acted-on unlisted
    An iteration of the event loop that takes longer is logged with what it does, and counted; 0 turns that off.
ottla.loop.stall.disconnect.ms INT 1500 500..60000|0 ms read-only acted-on unlisted
    After so long in one iteration, listeners and connections are shut down, so that others take over; 0 turns that off.
ottla.oauthbearer.private.addresses.allow BOOLEAN false - - read-only acted-on unlisted
    Fetch the keys of tokens also from addresses that are not public: loopback, private, link-local.
ottla.request.entries.max INT 100000 1000.. - read-only acted-on unlisted
    Entries (topics, partitions, names) of one request, over all its arrays; a request with more is rejected.
"""

OAUTH_ROWS = """
org.apache.kafka.sasl.oauthbearer.allowed.urls LIST "" list - read-only acted-on unlisted
    URLs that keys of tokens may come from; a file has to be named here. When it is empty, https URLs are allowed.
"""
"""A system property of Kafka's JVM, which has no configuration key for it."""

AUTHORIZER_ROWS = """
allow.everyone.if.no.acl.found BOOLEAN false - - read-only acted-on unlisted
    Whether every operation on a resource is allowed as long as no access control entry matches it.
super.users STRING "" - - read-only acted-on unlisted
    Principals that may do everything, as User:a;User:b. Nodes belong here where they authenticate to each other.
"""
"""Kafka's StandardAuthorizer reads these itself: KafkaConfig does not know them."""

_AREAS = (
    network,
    node,
    log,
    quorum,
    groups,
    share_and_streams,
    transactions,
    quotas_and_metrics,
    tiered_storage,
    security,
)

OTTLA_KEYS: dict[str, ConfigKey] = read_table(OTTLA_ROWS)
BROKER_KEYS: dict[str, ConfigKey] = {key: row for area in _AREAS for key, row in read_table(area.ROWS).items()}
AUTHORIZER_KEYS: dict[str, ConfigKey] = read_table(AUTHORIZER_ROWS)
OAUTH_KEYS: dict[str, ConfigKey] = read_table(OAUTH_ROWS)
BROKER_KEYS |= OTTLA_KEYS | AUTHORIZER_KEYS | OAUTH_KEYS


def parse_broker_value(key: str, text: str | None) -> ConfigValue:
    """Return the value of ``text`` for ``key``; None stands for the default.

    Raises:
        ConfigurationError: ``text`` is not a value of the key.
    """
    row = BROKER_KEYS[key]
    try:
        return parse_value(row, row.default if text is None else text)
    except InvalidConfigError as error:
        raise ConfigurationError(error.message or "") from error
