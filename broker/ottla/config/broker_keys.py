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
    Answer a produce request with acks only after its records are on stable storage; one fsync serves all that wait.
ottla.admin.listener STRING "" - - read-only acted-on unlisted
    host:port of the admin HTTP server (health, readiness, metrics); empty turns it off.
ottla.advertised.host STRING "" - - read-only acted-on unlisted
    Whom clients are told to dial by listeners that have no host in advertised.listeners; the machine's name when empty.
ottla.advertise.dialled.address BOOLEAN false - - read-only acted-on unlisted
    Tell each client to dial the address that it has dialled; for one node that is reached by several names.
ottla.fetch.session.cache.bytes LONG 33554432 0.. bytes read-only acted-on unlisted
    Bytes that the partitions of all fetch sessions may take, some 400 for each; consumers beyond it have no sessions.
ottla.oauthbearer.private.addresses.allow BOOLEAN false - - read-only acted-on unlisted
    Fetch the keys of tokens also from addresses that are not public: loopback, private, link-local.
ottla.request.entries.max INT 100000 1000.. - read-only acted-on unlisted
    Entries (topics, partitions, names) that one request may list, over all its arrays; one with more is not served.
"""

OAUTH_ROWS = """
org.apache.kafka.sasl.oauthbearer.allowed.urls LIST "" list - read-only acted-on unlisted
    URLs that keys of tokens may come from; a file has to be named here. When it is empty, https URLs are allowed.
"""
"""A system property of Kafka's JVM, which has no configuration key for it."""

AUTHORIZER_ROWS = """
allow.everyone.if.no.acl.found BOOLEAN false - - read-only acted-on unlisted
    Whether everybody may do with a resource what they like while no access control entry speaks of it.
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
    """Return the value that ``text`` means for ``key``, None its default.

    Raises:
        ConfigurationError: ``text`` is nothing that the key takes.
    """
    row = BROKER_KEYS[key]
    try:
        return parse_value(row, row.default if text is None else text)
    except InvalidConfigError as error:
        raise ConfigurationError(error.message or "") from error
