"""A server under the permission matrix: connections, entries in effect, and responses that can be compared."""

import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from permission_requests import acl_filter
from permission_row import AUTO, EXISTING, ORDERS, OTHER, READERS, SHARERS, Row, build, request_of
from permission_streams_groups import joining

from ottla.errors import ErrorCode
from ottla.types import Uuid
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla.wire.codec import Message, Struct
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.registry import (
    ApiKey,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)

PASSWORDS: Final = {name: f"{name}-secret" for name in ("admin", "alice", "probe")}
WITHIN_S: Final = 60
CREATED_WITHIN_S: Final = 0.5
CLOSED: Final = "the connection is closed"

# Fields without a meaning for permissions that differ between servers or runs.
_IGNORED: Final = frozenset(
    {
        "throttle_time_ms",
        "cluster_id",
        "host",
        "port",
        "controller_id",
        "producer_id",
        "session_id",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "partition_size",
        "leader_epoch",
        "last_timestamp",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "log_end_offset",
        "high_watermark",
        "base_offset",
        "last_sequence",
        "replica_directory_id",
        "finalized_features_epoch",
        "incarnation_id",
        "current_leader",
        "node_endpoints",
        "last_stable_offset",
        "listeners",
        "log_append_time_ms",
        "token_id",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
        "issue_timestamp",
        "expiry_timestamp",
        "max_timestamp",
    }
)
_AUTHORIZATION_ERRORS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)

_probes = itertools.count()


class Connection:
    """A connection authenticated with PLAIN; connects again after the server has closed it."""

    def __init__(self, host: str, port: int, user: str) -> None:
        self._address = host, port
        self._user = user
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def ask(self, request: Message, version: int) -> Any:
        """Return the response; None when the server closed the connection instead."""
        try:
            if self._socket is None:
                self._open()
            return self._ask(request, version)
        except ConnectionError:
            self.close()
            return None

    def send_one_way(self, request: Message, version: int) -> bool:
        """Send a request without a response; return whether the connection survives it."""
        if self._socket is None:
            self._open()
        try:
            self._send(request, version)
            self._ask(build(request_type(ApiKey.API_VERSIONS), {}), 0)
        except ConnectionError:
            self.close()
            return False
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=WITHIN_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        shaken = self._ask(build(request_type(ApiKey.SASL_HANDSHAKE), {"mechanism": "PLAIN"}), 1)
        token = f"\0{self._user}\0{PASSWORDS[self._user]}".encode()
        login = self._ask(build(request_type(ApiKey.SASL_AUTHENTICATE), {"auth_bytes": token}), 2)
        assert (shaken.error_code, login.error_code) == (0, 0), (shaken, login)

    def _ask(self, request: Message, version: int) -> Any:
        self._send(request, version)
        key = ApiKey(request.api_key)
        frame = self._read(struct.unpack(">i", self._read(4))[0])
        _, position = ResponseHeader.decode_from(frame, response_header_version(key, version))
        return response_type(key).decode(memoryview(frame), version, position)

    def _send(self, request: Message, version: int) -> None:
        assert self._socket is not None
        self._correlation_id += 1
        key = ApiKey(request.api_key)
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id="matrix",
        )
        payload = header.encode(request_header_version(key, version)) + request.encode(version)
        self._socket.sendall(struct.pack(">i", len(payload)) + payload)

    def _read(self, size_bytes: int) -> bytes:
        assert self._socket is not None
        parts = b""
        while len(parts) < size_bytes:
            part = self._socket.recv(size_bytes - len(parts))
            if not part:
                raise ConnectionResetError
            parts += part
        return parts


class Server:
    """One node with listeners for clients and for controllers; `admin` is a super user, `alice` the user under test."""

    def __init__(self, host: str, broker_port: int, controller_port: int) -> None:
        self.topic_ids: dict[str, Uuid] = {}
        self._made: dict[str, Uuid] = {}
        self._connections = {
            (user, on_controller): Connection(host, controller_port if on_controller else broker_port, user)
            for user in PASSWORDS
            for on_controller in (False, True)
        }

    def prepare(self) -> None:
        """Create the topics and the group of the catalog."""
        eventually(self._is_ready)
        self.restore_topics()
        eventually(self._has_offsets)
        eventually(self._has_share_group)
        eventually(self._has_share_offsets)
        eventually(self._has_streams_group)
        self.leave_streams_group()
        eventually(lambda: not self._admin(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None).error_code)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def grant(self, acls: Iterable[Acl]) -> None:
        """Have these entries and no others; return when brokers and controllers go by them."""
        self.revoke()
        name = f"probe-{next(_probes)}"
        last = Acl(
            ResourceType.TOPIC, name, PatternType.LITERAL, "User:probe", "*", Operation.ALL, PermissionType.ALLOW
        )
        made = self._admin(ApiKey.CREATE_ACLS, 3, creations=[_creation(acl) for acl in (*acls, last)])
        assert not any(result.error_code for result in made.results), made
        listed = {"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]}
        grown = {"name": name, "count": 2, "assignments": None}
        eventually(lambda: self._probe(ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": [listed]}))
        for on_controller in (False, True):
            asked = {"topics": [grown], "validate_only": True}
            eventually(lambda at=on_controller, asked=asked: self._probe(ApiKey.CREATE_PARTITIONS, asked, at))

    def revoke(self) -> None:
        """Remove every entry; brokers may go by them for a moment longer."""
        self._admin(ApiKey.DELETE_ACLS, 3, filters=[acl_filter(principal=None)])
        everything = acl_filter(principal=None)
        eventually(lambda: self._admin(ApiKey.DESCRIBE_ACLS, 3, **everything).resources == [])

    def response(self, row: Row, version: int, user: str = "alice") -> Any:
        """Send a row's request; return the comparable part of its response."""
        connection = self._connections[user, row.on_controller]
        request = request_of(row, self, version)
        if row.api_key is ApiKey.PRODUCE and getattr(request, "acks", None) == 0:
            return "served" if connection.send_one_way(request, version) else CLOSED
        response = connection.ask(request, version)
        if response is None:
            return CLOSED
        shown = self._shown(response, _IGNORED | row.ignored)
        if row.undo is not None and row.undone_after in _error_codes(shown):
            row.undo(self)
        if row.compares_errors_only:
            return sorted(code for code in _error_codes(shown) if code in _AUTHORIZATION_ERRORS)
        return shown

    def restore_topics(self) -> None:
        """Have the topics there that rows delete."""
        wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in EXISTING]
        # The controller responds, before the broker has the metadata.
        for each in self._admin(ApiKey.CREATE_TOPICS, 7, topics=wanted).topics:
            if each.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                assert each.error_code == 0, each
                self._made[each.name] = each.topic_id
        eventually(lambda: self._made.items() <= self._learn_topics().items())

    def restore_offsets(self) -> None:
        """Have offset 0 committed for one topic, and for no other."""
        eventually(self._has_offsets)

    def restore_share_offsets(self) -> None:
        """Have start offset 0 of the share group for two topics, and for no other."""
        eventually(self._has_share_offsets)

    def drop_auto_created(self) -> None:
        eventually(lambda: AUTO in self._learn_topics())
        self._admin(ApiKey.DELETE_TOPICS, 6, topics=[{"name": AUTO}], timeout_ms=5000)
        eventually(lambda: AUTO not in self._learn_topics())

    def leave_streams_group(self) -> None:
        """Have a streams group, without members and without the internal topic of its topology."""
        joins = joining(ORDERS)
        if self._appears(AUTO):
            self.drop_auto_created()
        leaves = joins | {"member_epoch": -1, "topology": None}
        eventually(lambda: not self._admin(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **leaves).error_code)

    def _appears(self, topic: str) -> bool:
        """Return whether a topic exists, which a request may just have let the broker create, or not."""
        deadline = time.monotonic() + CREATED_WITHIN_S
        while topic not in self._learn_topics():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def _is_ready(self) -> bool:
        """Return whether there is a broker; a server that has just started to listen may close connections."""
        response = self._admin(ApiKey.METADATA, 12, topics=[])
        return response is not None and bool(response.brokers)

    def _has_offsets(self) -> bool:
        partitions = [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]
        self._admin(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[READERS])
        topics = [{"name": name, "partitions": partitions} for name in ("orders", OTHER)]
        made = self._admin(ApiKey.OFFSET_COMMIT, 9, group_id=READERS, topics=topics)
        return not any(_error_codes(self._shown(made)))

    def _has_share_group(self) -> bool:
        """Have a member join and leave the share group."""
        self._admin(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[SHARERS])
        member = {"group_id": SHARERS, "member_id": "m"}
        joined = self._admin(
            ApiKey.SHARE_GROUP_HEARTBEAT, 1, **member, member_epoch=0, subscribed_topic_names=[ORDERS, OTHER]
        )
        left = self._admin(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **member, member_epoch=-1)
        return not joined.error_code and not left.error_code

    def _has_share_offsets(self) -> bool:
        partitions = [{"partition_index": 0, "start_offset": 0}]
        topics = [{"topic_name": name, "partitions": partitions} for name in (ORDERS, OTHER)]
        made = self._admin(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id=SHARERS, topics=topics)
        return not any(_error_codes(self._shown(made)))

    def _has_streams_group(self) -> bool:
        """Have a member join the streams group."""
        joins = joining(ORDERS)
        self._admin(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[joins["group_id"]])
        return not self._admin(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **joins).error_code

    def _learn_topics(self) -> dict[str, Uuid]:
        """Return the topics with leaders."""
        topics = self._admin(ApiKey.METADATA, 12, topics=None).topics
        self.topic_ids = {
            each.name: each.topic_id for each in topics if all(part.leader_id >= 0 for part in each.partitions)
        }
        return self.topic_ids

    def _admin(self, api_key: ApiKey, version: int, **values: Any) -> Any:
        return self._connections["admin", False].ask(build(request_type(api_key), values), version)

    def _probe(self, api_key: ApiKey, values: dict[str, Any], on_controller: bool = False) -> bool:
        version = {ApiKey.LIST_OFFSETS: 9, ApiKey.CREATE_PARTITIONS: 3}[api_key]
        response = self._connections["probe", on_controller].ask(build(request_type(api_key), values), version)
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED not in set(_error_codes(self._shown(response)))

    def _shown(self, value: Any, ignored: frozenset[str] = _IGNORED) -> Any:
        """Return a value as plain ones, without fields that may differ; lists sorted, ids as names."""
        if isinstance(value, Struct):
            fields = {key: getattr(value, key) for key in value.fields if key not in ignored}
            return {
                key: _worded(each) if key == "error_message" else self._shown(each, ignored)
                for key, each in fields.items()
            }
        if isinstance(value, list):
            # The topic of transactions is created by the first producer that needs it: not at the same time in both.
            shown = (self._shown(each, ignored) for each in value)
            return sorted((each for each in shown if "'__transaction_state'" not in repr(each)), key=repr)
        if isinstance(value, bytes | memoryview):
            names = [name for name, topic_id in self.topic_ids.items() if topic_id == value]
            return names[0] if names else len(value) > 0 and any(value)
        return value


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def is_listening(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        return probe.connect_ex((host, port)) == 0


def _creation(acl: Acl) -> dict[str, Any]:
    values = acl._asdict()
    values["resource_pattern_type"] = values.pop("pattern_type")
    return values


def _worded(message: str | None) -> str | None:
    """Return the comparable part of an error message: whether there is one; its text is each server's own."""
    return "words" if message else message


def _error_codes(shown: Any) -> Iterable[int]:
    if isinstance(shown, dict):
        for key, value in shown.items():
            if key == "error_code":
                yield value
            else:
                yield from _error_codes(value)
    elif isinstance(shown, list):
        for each in shown:
            yield from _error_codes(each)
