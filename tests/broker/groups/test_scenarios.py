"""Conversations of clients with a group coordinator, recorded from JVM Kafka 4.3.1 and held against ours.

``scenarios/*.txt``: a comment (and ``config KEY=VALUE``), then blocks of commands, ``----``, and every answer that they
bring about. A command is a client's name, an API and ``key=value`` pairs; ``$a`` stands for the member id that client a
was given last (in answers: for the first one; then come ``$a'``, ``$a''``), ``-`` for an empty string. ``advance MS``
lets time pass.

To write the answers anew from ours: OTTLA_SCENARIOS=rewrite. To record them from a Kafka that runs with
group.initial.rebalance.delay.ms=500, group.min.session.timeout.ms=100 and the topics t (3 partitions) and u (1): also
OTTLA_SCENARIOS_BOOTSTRAP=HOST:PORT, and OTTLA_SCENARIOS_CONFIG=KEY=VALUE for the files that have such a ``config``.
"""

import os
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.groups.config import GroupConfig
from ottla.wire.codec import Message
from ottla.wire.messages import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.registry import ApiKey, request_header_version, response_header_version, response_type

SCENARIOS = sorted(Path(__file__).parent.glob("scenarios/*.txt"))
BOOTSTRAP = os.environ.get("OTTLA_SCENARIOS_BOOTSTRAP")
CONFIG = os.environ.get("OTTLA_SCENARIOS_CONFIG", "")
REWRITE = os.environ.get("OTTLA_SCENARIOS") == "rewrite"
SETTLE_S = 0.1
ORDER_S = 0.03
"""What Kafka is given to take one request before the next one comes over another connection."""
UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class Names:
    """Makes conversations comparable: member ids get the name of the client that they were given to."""

    def __init__(self, group_suffix: str = "") -> None:
        self.group_suffix = group_suffix
        self.member_ids: dict[str, str] = {}
        self.topic_ids: dict[str, bytes] = {}
        self._shown: dict[str, str] = {}

    def learn(self, client: str, member_id: str) -> None:
        if UUID.search(member_id):
            count = sum(shown.rstrip("'") == f"${client}" for shown in self._shown.values())
            self._shown.setdefault(member_id, f"${client}" + "'" * count)
            self.member_ids[client] = member_id

    def member_id(self, text: str) -> str:
        """Return what ``text`` stands for in a command."""
        by_shown = {shown: member_id for member_id, shown in self._shown.items()}
        if text == "-":
            return ""
        return self.member_ids.get(text.removeprefix("$")) or by_shown.get(text, text)

    def shown(self, member_id: str) -> str:
        return self._shown.get(member_id) or UUID.sub("-?", member_id) or "-"

    def topic(self, topic: Any) -> str:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        return topic.name or names.get(topic.topic_id, "?")


class Command:
    """One line: who asks what."""

    def __init__(self, line: str) -> None:
        self.client, self.api, *pairs = line.split()
        self.options = dict(pair.split("=", 1) for pair in pairs)

    def get(self, key: str, default: str = "-") -> str:
        return self.options.get(key, default)

    def version(self, latest: int) -> int:
        return int(self.options.get("v", latest))

    def text(self, key: str) -> str:
        value = self.get(key)
        return "" if value == "-" else value

    def pairs(self, key: str) -> list[tuple[str, str]]:
        """Return ``x:1,y`` as (x, 1), (y, "")."""
        return [(part.partition(":")[0], part.partition(":")[2]) for part in self.text(key).split(",") if part]


def group_of(command: Command, names: Names) -> str:
    group = command.text("group")
    return group + names.group_suffix if group else ""


def join(command: Command, names: Names) -> tuple[Message, int]:
    session_ms = int(command.get("session", "30000"))
    return join_group.JoinGroupRequest(
        group_id=group_of(command, names),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=int(command.get("rebalance", "60000")) if command.version(9) else -1,
        member_id=names.member_id(command.get("member")),
        group_instance_id=command.options.get("instance"),
        protocol_type=command.get("type", "consumer"),
        protocols=[
            join_group.JoinGroupRequestProtocol(name=name, metadata=metadata_of(text))
            for name, text in command.pairs("protocols")
        ],
        reason=command.options.get("reason"),
    ), command.version(9)


def metadata_of(text: str) -> bytes:
    """Return a subscription to the topics ``x+y``, or, with a leading ``!``, bytes that are none."""
    if text.startswith("!"):
        return text[1:].encode()
    topics = [topic for topic in text.split("+") if topic]
    encoded = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + encoded + struct.pack(">i", -1)


def sync(command: Command, names: Names) -> tuple[Message, int]:
    version = command.version(5)
    return sync_group.SyncGroupRequest(
        group_id=group_of(command, names),
        generation_id=int(command.get("generation", "1")),
        member_id=names.member_id(command.get("member", f"${command.client}")),
        group_instance_id=command.options.get("instance"),
        protocol_type=command.options.get("type", "consumer" if version >= 5 else None),
        protocol_name=command.options.get("protocol", "range" if version >= 5 else None),
        assignments=[
            sync_group.SyncGroupRequestAssignment(member_id=names.member_id(member), assignment=text.encode())
            for member, text in command.pairs("assign")
        ],
    ), version


def beat(command: Command, names: Names) -> tuple[Message, int]:
    return heartbeat.HeartbeatRequest(
        group_id=group_of(command, names),
        generation_id=int(command.get("generation", "1")),
        member_id=names.member_id(command.get("member", f"${command.client}")),
        group_instance_id=command.options.get("instance"),
    ), command.version(4)


def leave(command: Command, names: Names) -> tuple[Message, int]:
    version = command.version(5)
    members = command.text("members").split(",") if "members" in command.options else [f"${command.client}"]
    if version < 3:
        return leave_group.LeaveGroupRequest(
            group_id=group_of(command, names), member_id=names.member_id(members[0])
        ), version
    identities = []
    for member in members:
        member_id, _, instance = member.partition("@")
        identities.append(
            leave_group.MemberIdentity(
                member_id=names.member_id(member_id or "-"),
                group_instance_id=instance or None,
                reason=command.options.get("reason"),
            )
        )
    return leave_group.LeaveGroupRequest(group_id=group_of(command, names), members=identities), version


def commit(command: Command, names: Names) -> tuple[Message, int]:
    version = command.version(9)
    topics: dict[str, list[offset_commit.OffsetCommitRequestPartition]] = {}
    for topic, rest in command.pairs("offsets"):
        partition, offset, *metadata = rest.split(":")
        text = metadata[0] if metadata else ""
        if match := re.fullmatch(r"(.+)\*(\d+)", text):
            text = match[1] * int(match[2])
        topics.setdefault(topic, []).append(
            offset_commit.OffsetCommitRequestPartition(
                partition_index=int(partition),
                committed_offset=int(offset),
                committed_leader_epoch=int(command.get("epoch", "-1")),
                committed_metadata=None if text == "null" else text,
            )
        )
    return offset_commit.OffsetCommitRequest(
        group_id=group_of(command, names),
        generation_id_or_member_epoch=int(command.get("generation", "-1")),
        member_id=names.member_id(command.get("member")),
        group_instance_id=command.options.get("instance"),
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=name, topic_id=names.topic_ids.get(name, bytes(15) + b"\x7f"), partitions=partitions
            )
            for name, partitions in topics.items()
        ],
    ), version


def fetch(command: Command, names: Names) -> tuple[Message, int]:
    version = command.version(9)
    asked = None
    if command.get("topics") != "all":
        asked = {topic: [int(index) for index in rest.split(":")] for topic, rest in command.pairs("topics")}
    stable = command.get("stable") == "yes"
    if version < 8:
        topics = (
            None
            if asked is None
            else [
                offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in asked.items()
            ]
        )
        group = group_of(command, names)
        return offset_fetch.OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable), version
    groups = [
        offset_fetch.OffsetFetchRequestGroup(
            group_id=group + names.group_suffix if group else "",
            topics=None
            if asked is None
            else [
                offset_fetch.OffsetFetchRequestTopics(
                    name=name, topic_id=names.topic_ids.get(name, bytes(15) + b"\x7f"), partition_indexes=indexes
                )
                for name, indexes in asked.items()
            ],
        )
        for group in command.text("group").split(",")
    ]
    return offset_fetch.OffsetFetchRequest(groups=groups, require_stable=stable), version


def list_(command: Command, names: Names) -> tuple[Message, int]:
    return list_groups.ListGroupsRequest(
        states_filter=[part for part in command.text("states").split(",") if part],
        types_filter=[part for part in command.text("types").split(",") if part],
    ), command.version(5)


def describe(command: Command, names: Names) -> tuple[Message, int]:
    groups = [group + names.group_suffix if group else "" for group in command.text("groups").split(",")]
    return describe_groups.DescribeGroupsRequest(groups=groups), command.version(6)


def delete(command: Command, names: Names) -> tuple[Message, int]:
    groups = [group + names.group_suffix if group else "" for group in command.text("groups").split(",")]
    return delete_groups.DeleteGroupsRequest(groups_names=groups), command.version(2)


def forget(command: Command, names: Names) -> tuple[Message, int]:
    return offset_delete.OffsetDeleteRequest(
        group_id=group_of(command, names),
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    offset_delete.OffsetDeleteRequestPartition(partition_index=int(index)) for index in rest.split(":")
                ],
            )
            for topic, rest in command.pairs("topics")
        ],
    ), 0


REQUESTS: dict[str, Callable[[Command, Names], tuple[Message, int]]] = {
    "join": join,
    "sync": sync,
    "heartbeat": beat,
    "leave": leave,
    "commit": commit,
    "fetch": fetch,
    "list": list_,
    "describe": describe,
    "delete": delete,
    "forget": forget,
}


def show(client: str, response: Any, names: Names) -> list[str]:
    """Return an answer as lines; what a response may list in any order is sorted."""
    kind = type(response).__name__.removesuffix("Response")
    if kind == "JoinGroup":
        names.learn(client, response.member_id)
    lines = [part for part in SHOW[kind](response, names) if part]
    text = [line.replace(names.group_suffix, "") if names.group_suffix else line for line in lines]
    return [f"{client} <- {kind} {text[0]}", *(f"    {line}" for line in text[1:])]


def code(value: int) -> str:
    return ErrorCode(value).name


def show_join(response: join_group.JoinGroupResponse, names: Names) -> list[str]:
    protocol = {None: "null", "": "-"}.get(response.protocol_name, response.protocol_name)
    if response.error_code:
        return [f"{code(response.error_code)} member={names.shown(response.member_id)} protocol={protocol}"]
    skip = " skip_assignment" if response.skip_assignment else ""
    members = sorted(
        f"{names.shown(member.member_id)}"
        + (f" instance={member.group_instance_id}" if member.group_instance_id else "")
        + f" {member.metadata.hex()}"
        for member in response.members
    )
    return [
        f"NONE generation={response.generation_id} type={response.protocol_type} protocol={protocol} "
        f"leader={names.shown(response.leader)} member={names.shown(response.member_id)}{skip}",
        *members,
    ]


def show_sync(response: sync_group.SyncGroupResponse, names: Names) -> list[str]:
    if response.error_code:
        return [code(response.error_code)]
    assigned = response.assignment.decode() or "-"
    return [f"NONE type={response.protocol_type} protocol={response.protocol_name} assignment={assigned}"]


def show_leave(response: leave_group.LeaveGroupResponse, names: Names) -> list[str]:
    members = [
        f"{names.shown(member.member_id)} instance={member.group_instance_id} {code(member.error_code)}"
        for member in response.members
    ]
    return [code(response.error_code), *members]


def show_commit(response: offset_commit.OffsetCommitResponse, names: Names) -> list[str]:
    partitions = sorted_partitions(response.topics, names, lambda part: code(part.error_code))
    return [f"{len(response.topics)} topics", *partitions]


def show_fetch(response: offset_fetch.OffsetFetchResponse, names: Names) -> list[str]:
    def offset(part: Any) -> str:
        if part.error_code:
            return f"{part.committed_offset} {code(part.error_code)}"
        return f"{part.committed_offset} epoch={part.committed_leader_epoch} metadata={part.metadata!r}"

    if not response.groups:
        return [code(response.error_code), *sorted_partitions(response.topics, names, offset)]
    lines = [f"{len(response.groups)} groups"]
    for group in response.groups:
        lines.append(f"{group.group_id or '-'} {code(group.error_code)}")
        lines += [f"  {line}" for line in sorted_partitions(group.topics, names, offset)]
    return lines


def sorted_partitions(topics: list[Any], names: Names, describe_one: Callable[[Any], str]) -> list[str]:
    def name_of(topic: Any) -> str:
        return topic.name if not hasattr(topic, "topic_id") else names.topic(topic)

    return sorted(
        f"{name_of(topic)}-{part.partition_index} {describe_one(part)}" for topic in topics for part in topic.partitions
    )


def show_list(response: list_groups.ListGroupsResponse, names: Names) -> list[str]:
    return [
        code(response.error_code),
        *sorted(
            f"{group.group_id} type={group.group_type or '-'} protocol={group.protocol_type or '-'} "
            f"state={group.group_state or '-'}"
            for group in response.groups
            if group.group_id.endswith(names.group_suffix)
        ),
    ]


def show_describe(response: describe_groups.DescribeGroupsResponse, names: Names) -> list[str]:
    lines = [f"{len(response.groups)} groups"]
    for group in sorted(response.groups, key=lambda one: one.group_id):
        lines.append(
            f"{group.group_id or '-'} {code(group.error_code)} state={group.group_state or '-'} "
            f"type={group.protocol_type or '-'} protocol={group.protocol_data or '-'}"
            + (f" message={group.error_message!r}" if group.error_message else "")
        )
        lines += sorted(
            f"  {names.shown(member.member_id)} instance={member.group_instance_id} client={member.client_id} "
            f"host={member.client_host} metadata={member.member_metadata.hex() or '-'} "
            f"assignment={member.member_assignment.decode() or '-'}"
            for member in group.members
        )
    return lines


def show_delete(response: delete_groups.DeleteGroupsResponse, names: Names) -> list[str]:
    results = sorted(f"{result.group_id or '-'} {code(result.error_code)}" for result in response.results)
    return [f"{len(results)} groups", *results]


def show_forget(response: offset_delete.OffsetDeleteResponse, names: Names) -> list[str]:
    return [
        code(response.error_code),
        *sorted_partitions(response.topics, names, lambda part: code(part.error_code)),
    ]


SHOW: dict[str, Callable[[Any, Names], list[str]]] = {
    "JoinGroup": show_join,
    "SyncGroup": show_sync,
    "Heartbeat": lambda response, names: [code(response.error_code)],
    "LeaveGroup": show_leave,
    "OffsetCommit": show_commit,
    "OffsetFetch": show_fetch,
    "ListGroups": show_list,
    "DescribeGroups": show_describe,
    "DeleteGroups": show_delete,
    "OffsetDelete": show_forget,
}


class OurCoordinator:
    """Runs commands against a coordinator in this process; time is its simulated clock."""

    def __init__(self, new_group_node: Callable[..., Any], options: dict[str, int]) -> None:
        settings = {"min_session_timeout_ms": 100, "initial_rebalance_delay_ms": 500, **options}
        self.node = new_group_node(config=GroupConfig(**settings))
        self.names = Names()
        self.names.topic_ids = {name: self.node.metadata.topic_id(name) for name in ("t", "u")}
        self._answers: list[tuple[str, Any]] = []

    def send(self, client: str, request: Message, version: int) -> None:
        answer = self.node.call(request, version, client_id=client)
        answer.on_complete(lambda response: self._answers.append((client, response)))

    def advance(self, milliseconds: int) -> None:
        self.node.advance(milliseconds)

    def answers(self) -> list[tuple[str, Any]]:
        answers, self._answers = self._answers, []
        return answers

    def close(self) -> None:
        pass


class RunningKafka:
    """Runs commands against a broker at ``BOOTSTRAP``, each client over a connection of its own.

    A client that waits for an answer can ask nothing else: Kafka does not read on before.
    """

    def __init__(self, bootstrap: str, name: str) -> None:
        host, _, port = bootstrap.partition(":")
        self.address = (host, int(port))
        self.names = Names(f"-{name}-{time.time_ns()}")
        self.connections: dict[str, socket.socket] = {}
        self.waiting: dict[str, list[tuple[ApiKey, int]]] = {}
        topics = [MetadataRequestTopic(name=name) for name in ("t", "u")]
        self.send("setup", MetadataRequest(topics=topics), 12)
        ((_, response),) = self.answers()
        self.names.topic_ids = {topic.name: topic.topic_id for topic in response.topics}

    def send(self, client: str, request: Message, version: int) -> None:
        api_key = ApiKey(request.api_key)
        if client not in self.connections:
            self.connections[client] = socket.create_connection(self.address)
        header = RequestHeader(
            request_api_key=int(api_key), request_api_version=version, correlation_id=1, client_id=client
        )
        frame = header.encode(request_header_version(api_key, version)) + request.encode(version)
        self.connections[client].sendall(struct.pack(">i", len(frame)) + frame)
        time.sleep(ORDER_S)
        self.waiting.setdefault(client, []).append((api_key, version))

    def advance(self, milliseconds: int) -> None:
        time.sleep(milliseconds / 1000)

    def answers(self) -> list[tuple[str, Any]]:
        found = []
        while ready := select.select(list(self.connections.values()), [], [], SETTLE_S)[0]:
            for client, connection in self.connections.items():
                if connection in ready:
                    found.append((client, self._receive(client, connection)))
        return found

    def _receive(self, client: str, connection: socket.socket) -> Any:
        (size,) = struct.unpack(">i", self._read(connection, 4))
        frame = self._read(connection, size)
        api_key, version = self.waiting[client].pop(0)
        _, position = ResponseHeader.decode_from(frame, response_header_version(api_key, version))
        return response_type(api_key).decode(frame, version, position)

    @staticmethod
    def _read(connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = connection.recv(size - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


def blocks(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield (lines before ``----``, answers after it); blocks are separated by blank lines."""
    for block in re.split(r"\n\n+", text.strip()):
        commands, _, answers = block.partition("\n----\n")
        yield commands.removesuffix("\n----").splitlines(), answers


def run_block(commands: list[str], driver: Any) -> str:
    for line in commands:
        if line.startswith("#"):
            continue
        if line.startswith("advance "):
            driver.advance(int(line.split()[1]))
        else:
            command = Command(line)
            request, version = REQUESTS[command.api](command, driver.names)
            driver.send(command.client, request, version)
    answers = sorted(driver.answers(), key=lambda answer: answer[0])
    for client, response in answers:
        if isinstance(response, join_group.JoinGroupResponse):
            driver.names.learn(client, response.member_id)
    return "\n".join(line for client, response in answers for line in show(client, response, driver.names))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_conversation_goes_as_with_kafka(path: Path, new_group_node: Callable[..., Any]) -> None:
    text = path.read_text()
    header, _, body = text.partition("\n\n")
    options = {
        key: int(value)
        for line in header.splitlines()
        if line.startswith("config ")
        for key, value in [line.removeprefix("config ").split("=")]
    }
    is_kafka_set_up = " ".join(f"{key}={value}" for key, value in options.items()) == CONFIG
    if BOOTSTRAP is not None and is_kafka_set_up:
        driver: Any = RunningKafka(BOOTSTRAP, path.stem)
    else:
        driver = OurCoordinator(new_group_node, options)
    played = []
    for commands, expected in blocks(body):
        answers = run_block(commands, driver)
        played.append("\n".join([*commands, "----", answers]).rstrip())
        if not REWRITE:
            assert answers == expected.rstrip(), "\n".join(commands)
    driver.close()
    if REWRITE:
        path.write_text(header + "\n\n" + "\n\n".join(played) + "\n")
    assert played
