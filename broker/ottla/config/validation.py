"""Validation of ``server.properties``, which results in a `NodeConfig`: dependent defaults and contradictions.

Each check names the key, the value and what is allowed. Source: KafkaConfig.validateValues, AbstractKafkaConfig,
QuorumConfig (Kafka 4.3).
"""

from collections.abc import Mapping
from typing import Any

from ottla.config.broker_keys import BROKER_KEYS, parse_broker_value
from ottla.config.cordon import cordoned_directories
from ottla.config.key import ConfigValue, InvalidConfigError, SupportLevel, parse_value
from ottla.config.layers import find_broker_key
from ottla.config.listeners import (
    Listener,
    parse_bootstrap_servers,
    parse_listeners,
    parse_security_protocol_map,
    parse_voters,
    require_distinct_ports,
)
from ottla.config.node_config import BROKER_ROLE, CONTROLLER_ROLE, NodeConfig, plain_fields
from ottla.config.sasl_settings import read_sasl_settings
from ottla.config.tls_settings import check_tls_settings
from ottla.errors import ConfigurationError
from ottla.types import Endpoint

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
META_ADDRESSES = frozenset({"0.0.0.0", "::", "0:0:0:0:0:0:0:0"})  # noqa: S104 - rejected as advertised addresses


def read_node_config(properties: Mapping[str, str]) -> NodeConfig:
    """Return the validated configuration; see `NodeConfig.from_properties`."""
    originals = _with_node_id(dict(properties))
    values = _parse_all(originals)
    _require(values, "process.roles", "broker, controller, or broker,controller")
    _require(values, "node.id", "a number from 0, different for each node")
    warnings = _check_support(originals, values)
    listener_settings = _read_listeners(originals, values)
    settings = {
        **{name: values[key] for key, name in plain_fields().items()},
        **listener_settings,
        **_read_quorum(values),
        **_read_directories(values),
        "process_roles": frozenset(_words(values, "process.roles")),
        "max_connections_per_ip_overrides": _read_overrides(values),
        "ottla_admin_listener": _read_admin_listener(values),
    }
    config = NodeConfig(originals=originals, warnings=tuple(warnings), **settings)
    _check_relations(config, values)
    check_tls_settings(config)
    return config


def _with_node_id(originals: dict[str, str]) -> dict[str, str]:
    """Set node.id and broker.id to the same value if only one is given."""
    node_id, broker_id = originals.get("node.id"), originals.get("broker.id")
    if node_id is not None and broker_id is not None and node_id.strip() != broker_id.strip():
        raise ConfigurationError(
            f"node.id={node_id} and broker.id={broker_id} differ: set `node.id` only, or both to the same value"
        )
    known = node_id if node_id is not None else broker_id
    return originals if known is None else {**originals, "node.id": known, "broker.id": known}


def _parse_all(originals: Mapping[str, str]) -> dict[str, ConfigValue]:
    return {name: parse_broker_value(name, originals.get(name)) for name in BROKER_KEYS}


def _require(values: Mapping[str, ConfigValue], name: str, allowed: str) -> None:
    if values[name] is None:
        raise ConfigurationError(
            f'Missing required configuration "{name}" which has no default value. Set it to {allowed}.'
        )


def _check_support(originals: Mapping[str, str], values: Mapping[str, ConfigValue]) -> list[str]:
    """Return a warning for each key that is set but not supported; reject keys that must not be ignored."""
    warnings = []
    for name, text in originals.items():
        key = find_broker_key(name)
        if key is None:
            warnings.append(f"{name} is not a key of Kafka 4.3 or of Ottla: it has no effect. Check its spelling.")
            continue
        same = name in BROKER_KEYS and values[name] == parse_value(key, key.default)
        if same or (not text.strip() and not key.default):
            continue
        shown = "[hidden]" if key.is_sensitive else text
        if key.support is SupportLevel.REJECTED:
            raise ConfigurationError(f"{name}={shown} is rejected: {key.reason} Remove the key to start without it.")
        if key.support is SupportLevel.KNOWN:
            warnings.append(f"{name}={shown} has no effect in this release. ({key.reason})")
    return warnings


def _words(values: Mapping[str, ConfigValue], name: str) -> tuple[str, ...]:
    value = values[name]
    return value if isinstance(value, tuple) else ()


# --- listeners ---------------------------------------------------------------------------------------------------


def _read_listeners(originals: Mapping[str, str], values: Mapping[str, ConfigValue]) -> dict[str, Any]:
    roles = _words(values, "process.roles")
    _require(values, "controller.listener.names", "the name of the quorum's listener, usually CONTROLLER")
    controller_names = tuple(name.upper() for name in _words(values, "controller.listener.names"))
    protocols = _protocols(originals, values, controller_names)
    listeners = parse_listeners("listeners", _words(values, "listeners"), protocols)
    require_distinct_ports(listeners)
    _check_roles(roles, listeners, controller_names)
    advertised = _advertised(values, listeners, protocols)
    inter_broker = _inter_broker_name(originals, values, protocols)
    broker_advertised = tuple(listener for listener in advertised if listener.name not in controller_names)
    if BROKER_ROLE in roles:
        _check_advertised(broker_advertised, inter_broker)
    for listener in advertised:
        if listener.host in META_ADDRESSES and (BROKER_ROLE in roles or values["advertised.listeners"] is not None):
            raise ConfigurationError(
                f"advertised.listeners has {listener}: clients cannot connect to the meta-address {listener.host}. "
                "Set advertised.listeners to an address that clients reach."
            )
    return {
        "listeners": listeners,
        "advertised_listeners": broker_advertised if BROKER_ROLE in roles else (),
        "advertised_controller_listeners": _advertised_controllers(advertised, listeners, controller_names),
        "controller_listener_names": controller_names,
        "inter_broker_listener_name": inter_broker,
        "listener_security_protocol_map": protocols,
        "sasl": read_sasl_settings(
            originals,
            listeners,
            protocols=protocols,
            inter_broker=inter_broker if BROKER_ROLE in roles else None,
            controllers=controller_names,
        ),
    }


def _protocols(
    originals: Mapping[str, str], values: Mapping[str, ConfigValue], controller_names: tuple[str, ...]
) -> dict[str, str]:
    protocols = parse_security_protocol_map(str(values["listener.security.protocol.map"]))
    if "listener.security.protocol.map" not in originals:
        # As Kafka: without a configured map the quorum's listeners are PLAINTEXT.
        for name in controller_names:
            protocols.setdefault(name, "PLAINTEXT")
    return protocols


def _check_roles(roles: tuple[str, ...], listeners: tuple[Listener, ...], controller_names: tuple[str, ...]) -> None:
    names = {listener.name for listener in listeners}
    shown = ", ".join(str(listener) for listener in listeners)
    if CONTROLLER_ROLE not in roles:
        both = sorted(names & set(controller_names))
        if both:
            raise ConfigurationError(
                f"listeners={shown} has {', '.join(both)} of controller.listener.names, but "
                f"process.roles={','.join(roles)} does not run a controller: remove it from listeners"
            )
        return
    missing = [name for name in controller_names if name not in names]
    if missing:
        raise ConfigurationError(
            f"controller.listener.names has {', '.join(missing)}, which listeners={shown} does not open; "
            f"add {missing[0]}://:9093 to listeners"
        )
    others = sorted(names - set(controller_names))
    if BROKER_ROLE not in roles and others:
        raise ConfigurationError(
            f"listeners={shown} has {', '.join(others)}, but with process.roles=controller it may only have those of "
            f"controller.listener.names ({', '.join(controller_names)})"
        )


def _advertised(
    values: Mapping[str, ConfigValue], listeners: tuple[Listener, ...], protocols: Mapping[str, str]
) -> tuple[Listener, ...]:
    if values["advertised.listeners"] is None:
        return listeners
    return parse_listeners("advertised.listeners", _words(values, "advertised.listeners"), protocols)


def _advertised_controllers(
    advertised: tuple[Listener, ...], listeners: tuple[Listener, ...], controller_names: tuple[str, ...]
) -> tuple[Listener, ...]:
    """Return the addresses of the quorum's listeners: as advertised, else as opened."""
    by_name = {listener.name: listener for listener in (*listeners, *advertised) if listener.name in controller_names}
    opened = {listener.name for listener in listeners}
    return tuple(by_name[name] for name in controller_names if name in opened)


def _inter_broker_name(
    originals: Mapping[str, str], values: Mapping[str, ConfigValue], protocols: Mapping[str, str]
) -> str:
    name = values["inter.broker.listener.name"]
    if name is None:
        return str(values["security.inter.broker.protocol"])
    if "security.inter.broker.protocol" in originals:
        raise ConfigurationError(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
        )
    if str(name).upper() not in protocols:
        raise ConfigurationError(
            f"Listener with name {name} defined in inter.broker.listener.name not found in "
            f"listener.security.protocol.map; it has {', '.join(sorted(protocols))}."
        )
    return str(name).upper()


def _check_advertised(advertised: tuple[Listener, ...], inter_broker: str) -> None:
    if not advertised:
        raise ConfigurationError(
            "listeners: There must be at least one broker advertised listener. "
            "Perhaps all listeners appear in controller.listener.names?"
        )
    names = [listener.name for listener in advertised]
    if inter_broker not in names:
        raise ConfigurationError(
            f"inter.broker.listener.name is {inter_broker}, which must be a listener name defined in "
            f"advertised.listeners. The valid options based on currently configured listeners are {','.join(names)}"
        )


# --- the quorum, directories, single values ------------------------------------------------------------------------


def _read_quorum(values: Mapping[str, ConfigValue]) -> dict[str, Any]:
    voters = parse_voters(_words(values, "controller.quorum.voters"))
    key = "controller.quorum.bootstrap.servers"
    servers = parse_bootstrap_servers(key, _words(values, key))
    if not voters and not servers:
        raise ConfigurationError(
            "Set controller.quorum.bootstrap.servers to the controllers' host:port,... (or controller.quorum.voters to "
            "id@host:port,... for a fixed set of voters): without either the quorum cannot be found"
        )
    node_id, roles = values["node.id"], _words(values, "process.roles")
    voter_ids = [voter.node_id for voter in voters]
    if voters and CONTROLLER_ROLE in roles and node_id not in voter_ids:
        raise ConfigurationError(
            f"If process.roles contains the 'controller' role, the node id {node_id} must be included in the set of "
            f"voters controller.quorum.voters={voter_ids}: add {node_id}@host:port there, or take controller out of "
            "process.roles"
        )
    if CONTROLLER_ROLE not in roles and node_id in voter_ids:
        raise ConfigurationError(
            f"If process.roles contains just the 'broker' role, the node id {node_id} must not be included in the set "
            f"of voters controller.quorum.voters={voter_ids}: add controller to process.roles, or take the node out"
        )
    return {"controller_quorum_voters": voters, "controller_quorum_bootstrap_servers": servers}


def _read_directories(values: Mapping[str, ConfigValue]) -> dict[str, Any]:
    log_dirs = _words(values, "log.dirs") or _words(values, "log.dir")
    metadata_log_dir = values["metadata.log.dir"]
    try:
        cordoned_directories(_words(values, "cordoned.log.dirs"), log_dirs)
    except InvalidConfigError as error:
        raise ConfigurationError(error.message or "") from error
    return {
        "log_dirs": log_dirs,
        "metadata_log_dir": log_dirs[0] if metadata_log_dir is None else str(metadata_log_dir),
    }


def _read_overrides(values: Mapping[str, ConfigValue]) -> dict[str, int]:
    text = str(values["max.connections.per.ip.overrides"] or "")
    overrides = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        address, _, count = entry.rpartition(":")
        if not address or not count.strip().isdigit():
            raise ConfigurationError(f"max.connections.per.ip.overrides has {entry!r}; each entry is host:count")
        overrides[address.strip()] = int(count)
    return overrides


def _read_admin_listener(values: Mapping[str, ConfigValue]) -> Endpoint | None:
    text = str(values["ottla.admin.listener"] or "")
    return parse_bootstrap_servers("ottla.admin.listener", [text])[0] if text else None


_TIMES_OF_GROUPS = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_BOUNDS_OF_GROUPS = tuple(
    relation
    for protocol, settings in (
        ("consumer", _TIMES_OF_GROUPS),
        (
            "share",
            (*_TIMES_OF_GROUPS, "record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"),
        ),
        ("streams", _TIMES_OF_GROUPS),
    )
    for setting in settings
    for relation in (
        (f"group.{protocol}.min.{setting}", f"group.{protocol}.{setting}", "the default would be out of bounds"),
        (f"group.{protocol}.{setting}", f"group.{protocol}.max.{setting}", "the default would be out of bounds"),
    )
)


def _check_relations(config: NodeConfig, values: Mapping[str, ConfigValue]) -> None:
    """Reject values that are valid alone and contradict each other."""
    at_most = (
        (
            "replica.fetch.wait.max.ms",
            "replica.socket.timeout.ms",
            "a waiting fetch would time out",
        ),
        ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms", "a waiting follower would leave the in-sync replicas"),
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms", "no session timeout would be allowed"),
        *_BOUNDS_OF_GROUPS,
        (
            "group.streams.num.standby.replicas",
            "group.streams.max.standby.replicas",
            "the default would be out of bounds",
        ),
    )
    for smaller, larger, otherwise in at_most:
        small, large = values[smaller], values[larger]
        assert isinstance(small, int)
        assert isinstance(large, int)
        if small > large:
            raise ConfigurationError(f"{smaller}={small} must be at most {larger}={large}: {otherwise}")
    _check_groups(config)
    if config.broker_heartbeat_interval_ms > config.broker_session_timeout_ms // 2:
        raise ConfigurationError(
            f"broker.heartbeat.interval.ms={config.broker_heartbeat_interval_ms} must be at most half of "
            f"broker.session.timeout.ms={config.broker_session_timeout_ms}: one late heartbeat would fence the broker"
        )
    response_timeout_ms = config.originals.get("ottla.broker.response.timeout.ms")
    if response_timeout_ms is not None and int(response_timeout_ms) >= config.broker_session_timeout_ms:
        raise ConfigurationError(
            f"ottla.broker.response.timeout.ms={response_timeout_ms} must be 0, for no such limit, or below "
            f"broker.session.timeout.ms={config.broker_session_timeout_ms}: the session would always end before"
        )
    queued = config.queued_max_request_bytes
    if 0 < queued < config.socket_request_max_bytes:
        raise ConfigurationError(
            f"queued.max.request.bytes={queued} must be -1, for the node's own bound, or at least "
            f"socket.request.max.bytes={config.socket_request_max_bytes}: the largest request would never be read"
        )
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        raise ConfigurationError(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
        )
    _check_authorization(config)
    selector = config.replica_selector_class
    if selector not in (None, "", RACK_AWARE_SELECTOR):
        raise ConfigurationError(
            f"replica.selector.class={selector} is a Java class, which this release would not call; it may be empty or "
            f"{RACK_AWARE_SELECTOR}"
        )
    codec = values["offsets.topic.compression.codec"]
    if codec not in range(5):
        raise ConfigurationError(
            f"offsets.topic.compression.codec={codec} is not a codec; it may be 0 (none), 1 (gzip), 2 (snappy), "
            "3 (lz4) or 4 (zstd)"
        )
    _check_times(values)


def _check_groups(config: NodeConfig) -> None:
    for protocol, heartbeat_ms, session_ms in (
        ("consumer", config.group_consumer_heartbeat_interval_ms, config.group_consumer_session_timeout_ms),
        ("share", config.group_share_heartbeat_interval_ms, config.group_share_session_timeout_ms),
        ("streams", config.group_streams_heartbeat_interval_ms, config.group_streams_session_timeout_ms),
    ):
        if heartbeat_ms >= session_ms:
            raise ConfigurationError(
                f"group.{protocol}.heartbeat.interval.ms={heartbeat_ms} must be less than "
                f"group.{protocol}.session.timeout.ms={session_ms}: sessions would end between two heartbeats"
            )
    unknown = [name for name in config.group_consumer_assignors if name not in ("uniform", "range")]
    if unknown:
        raise ConfigurationError(
            f"group.consumer.assignors has {unknown[0]}, which may be a Java class that this release would not call; "
            "it may have uniform and range"
        )


def _check_authorization(config: NodeConfig) -> None:
    if config.authorizer_class_name not in ("", STANDARD_AUTHORIZER):
        raise ConfigurationError(
            f"authorizer.class.name={config.authorizer_class_name} is a Java class, which this release would not call; "
            f"it may be empty, which allows every operation, or {STANDARD_AUTHORIZER}"
        )
    for principal in config.super_user_principals:
        if ":" not in principal:
            raise ConfigurationError(
                f"super.users has {principal!r}; each entry is Type:name, as in User:admin, and ; stands between two"
            )


def _check_times(values: Mapping[str, ConfigValue]) -> None:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if values[name] == 0:
            raise ConfigurationError(f"{name}=0: retention must be unlimited (-1) or at least 1")
    for name, lowest in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        value = values[name]
        if isinstance(value, int) and value < lowest:
            raise ConfigurationError(f"{name}={value} must be greater than or equal to {lowest}")
