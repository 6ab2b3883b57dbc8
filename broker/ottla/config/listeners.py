"""Listeners and quorum voters: ``NAME://host:port`` and ``id@host:port`` as ``server.properties`` writes them.

Source: SocketServerConfigs.listenerListToEndPoints, AbstractKafkaConfig, QuorumConfig (Kafka 4.3).
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.errors import ConfigurationError
from ottla.types import Endpoint, NodeId

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = frozenset({"SSL", "SASL_SSL"})
SASL_PROTOCOLS = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
PORT_MAX = 65535

# Compiled on first use: these modules are imported by every command.
_LISTENER = r"^(?P<name>[^:/]+)://(?:\[(?P<ipv6>[0-9a-fA-F:%.]*)\]|(?P<host>[^\[\]:]*)):(?P<port>-?\d+)$"
_HOST_PORT = r"^(?:\[(?P<ipv6>[0-9a-fA-F:%.]+)\]|(?P<host>[^\[\]:]+)):(?P<port>\d+)$"


class Listener(NamedTuple):
    """A listener. An empty ``host`` means every address; port 0 means any free port."""

    name: str
    security_protocol: str
    host: str
    port: int

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port)

    def __str__(self) -> str:
        """Return Kafka's ``NAME://host:port``."""
        return f"{self.name}://{self.endpoint}"


class QuorumVoter(NamedTuple):
    """One entry of ``controller.quorum.voters``."""

    node_id: NodeId
    endpoint: Endpoint


def parse_security_protocol_map(text: str) -> dict[str, str]:
    """Read ``listener.security.protocol.map``: upper-case listener name to security protocol.

    Raises:
        ConfigurationError: an entry is not ``NAME:PROTOCOL``, or its protocol is not one of Kafka's four.
    """
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = entry.rpartition(":")
        if not colon or not name:
            raise ConfigurationError(
                f"listener.security.protocol.map has the entry {entry!r}; each entry is LISTENER_NAME:PROTOCOL"
            )
        if protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise ConfigurationError(
                f"Invalid security protocol `{protocol.strip()}` defined in listener.security.protocol.map; "
                f"it may be {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_listeners(key: str, entries: Iterable[str], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Read ``listeners`` or ``advertised.listeners``; names become upper case, as in Kafka.

    Raises:
        ConfigurationError: names ``key``, the entry and what is wrong with it.
    """
    listeners = []
    for entry in entries:
        match = re.match(_LISTENER, entry)
        if match is None:
            raise ConfigurationError(f"{key} has the entry {entry!r}; each entry is LISTENER_NAME://host:port")
        name, port = match["name"].upper(), int(match["port"])
        if name not in protocols:
            raise ConfigurationError(
                f"{key}: No security protocol defined for listener {name}; add {name}:PLAINTEXT (or another protocol) "
                "to listener.security.protocol.map"
            )
        if not 0 <= port <= PORT_MAX:
            raise ConfigurationError(f"{key} has the port {port} in {entry!r}; a port is 0 to {PORT_MAX}")
        listeners.append(Listener(name, protocols[name], match["ipv6"] or match["host"] or "", port))
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigurationError(f"{key}: Each listener must have a different name; got {', '.join(names)}")
    return tuple(listeners)


def require_distinct_ports(listeners: Iterable[Listener]) -> None:
    """Reject two listeners on one port, unless one is IPv4 and the other IPv6 by literal address.

    Raises:
        ConfigurationError: names both listeners.
    """
    seen: dict[int, Listener] = {}
    for listener in listeners:
        other = seen.setdefault(listener.port, listener)
        if listener.port == 0 or other is listener:
            continue
        if not ((_is_ipv4(listener.host) and ":" in other.host) or (":" in listener.host and _is_ipv4(other.host))):
            raise ConfigurationError(
                f"listeners: Each listener must have a different port; {other} and {listener} share {listener.port}"
            )


def parse_voters(entries: Iterable[str]) -> tuple[QuorumVoter, ...]:
    """Read ``controller.quorum.voters``, sorted by id; the last of two entries with one id counts, as in Kafka.

    Raises:
        ConfigurationError: an entry is not ``id@host:port``, or its host is not an address to connect to.
    """
    voters: dict[NodeId, QuorumVoter] = {}
    for entry in entries:
        node_id, at, host_port = entry.partition("@")
        if not at or not node_id.strip().isdigit():
            raise ConfigurationError(
                f"Invalid configuration value {entry!r} for controller.quorum.voters. "
                "Each entry should be in the form `{id}@{host}:{port}`."
            )
        voter = QuorumVoter(int(node_id), _parse_endpoint("controller.quorum.voters", host_port, "{id}@{host}:{port}"))
        if voter.endpoint.host in ("0.0.0.0", "::"):  # noqa: S104 - rejected here, not bound
            raise ConfigurationError(f"controller.quorum.voters: {entry!r} is not an address to connect to")
        voters[voter.node_id] = voter
    return tuple(voters[node_id] for node_id in sorted(voters))


def parse_bootstrap_servers(key: str, entries: Iterable[str]) -> tuple[Endpoint, ...]:
    """Read a list of ``host:port``.

    Raises:
        ConfigurationError: names ``key`` and the entry.
    """
    return tuple(_parse_endpoint(key, entry, "{host}:{port}") for entry in entries)


def parse_bootstrap_text(text: str) -> tuple[Endpoint, ...]:
    """Read a client's ``bootstrap.servers``; raises as `parse_bootstrap_servers`."""
    return parse_bootstrap_servers("bootstrap.servers", filter(None, (entry.strip() for entry in text.split(","))))


def _parse_endpoint(key: str, text: str, form: str) -> Endpoint:
    match = re.match(_HOST_PORT, text.strip())
    if match is None or int(match["port"]) > PORT_MAX:
        raise ConfigurationError(
            f"Failed to parse host name from {text!r} for the configuration {key}. "
            f"Each entry should be in the form `{form}`, with a port up to {PORT_MAX}."
        )
    return Endpoint(match["ipv6"] or match["host"], int(match["port"]))


def _is_ipv4(host: str) -> bool:
    return re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", host) is not None
