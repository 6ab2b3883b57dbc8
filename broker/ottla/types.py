"""Types of all packages: ids, offsets, times and addresses, in Kafka's terms.

The plain aliases (`Offset`, `LeaderEpoch`, ...) are `int` to the interpreter: they name what a number means.
"""

import base64
import binascii
from ipaddress import IPv6Address
from typing import NamedTuple, NewType, TypeAlias

from ottla.quoting import cut_name, escape_unprintable

Offset: TypeAlias = int
"""A record's position in a partition's log, from 0; -1 for none."""

LeaderEpoch: TypeAlias = int
"""Counts a partition's (or the quorum's) leaders, from 0; -1 for none."""

NodeId: TypeAlias = int
"""``node.id`` of a broker or controller, from 0; -1 for none."""

ProducerId: TypeAlias = int
ProducerEpoch: TypeAlias = int

NEVER_MS = 2**63 - 1
"""A due time in the unreachable future, by any clock."""

Uuid = NewType("Uuid", bytes)
"""16 bytes, big-endian, as on the wire; topics, directories and incarnations have one."""

ZERO_UUID = Uuid(bytes(16))
ONE_UUID = Uuid(bytes(15) + b"\x01")
"""Reserved, as the zero id: Kafka's Uuid.ONE_UUID, the id of the metadata topic."""
UUID_SIZE_BYTES = 16

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
CLUSTER_METADATA_TOPIC_ID = ONE_UUID
CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})


def format_uuid(value: Uuid) -> str:
    """Return the 22 characters of base64url without padding that Kafka prints."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def parse_uuid(text: str) -> Uuid:
    """Read what `format_uuid` writes.

    Raises:
        ValueError: ``text`` is not the base64url of 16 bytes.
    """
    try:
        value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a base64url id: {error}") from error
    if len(value) != UUID_SIZE_BYTES:
        raise ValueError(f"{text!r} holds {len(value)} bytes; an id has {UUID_SIZE_BYTES}")
    return Uuid(value)


def host_address(host: str) -> str:
    """Return an address as Java formats it (InetAddress.getHostAddress), for ACLs, groups and logs.

    An IPv6 address has all eight groups, without leading zeros. Other strings are returned unchanged.
    """
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    groups = IPv6Address(address).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone


class TopicPartition(NamedTuple):
    """One partition by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return Kafka's directory name, ``<topic>-<partition>``."""
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """One partition by its topic's id."""

    topic_id: Uuid
    partition: int


class OffsetAndEpoch(NamedTuple):
    """A position in a log together with the leader epoch that it belongs to."""

    offset: Offset
    epoch: LeaderEpoch


class Endpoint(NamedTuple):
    """The address of a listener: host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return ``host:port``, with brackets around an IPv6 address; a host that a peer sent forges no log line."""
        host = escape_unprintable(cut_name(self.host))
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
