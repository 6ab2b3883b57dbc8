"""Strings of clients cannot forge or flood the log: they are planted in every field of every request.

A planted string has line breaks of every kind, terminal escapes, a NUL and a direction mark; another has the maximum
length. The records of every logger, down to DEBUG, have only printable characters and a bounded length. The response,
if any, can be encoded.
"""

import logging
import struct

import pytest

from fuzz_target import (
    LISTENERS,
    LOCKED,
    NO_PERMISSIONS,
    WITH_SASL,
    Target,
    check_lines,
    every_api_on_every_listener,
    serve,
)
from fuzz_values import FRAMES_PER_VERSION, LONG, PLANTED, TOPIC, RandomValues, header_of
from ottla.errors import ErrorCode
from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG
from ottla.metadata.topic_name import NAME_LENGTH_MAX
from ottla.simulator.world.single_node import LOCKED as WITH_PLAIN
from ottla.simulator.world.single_node import Client, MessageT
from ottla.wire.codec import Message
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.registry import ApiKey, request_type
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.messages.vote import VoteRequest, VoteResponse

ENDLESS = (PLANTED + LONG)[: 32_767 - 64]
STRINGS = (TOPIC, "consumer", PLANTED, PLANTED, LONG, ENDLESS)


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="ottla")


@every_api_on_every_listener
@pytest.mark.parametrize("settings", [{}, NO_PERMISSIONS], ids=["permitted", "denied"])
def test_no_string_of_a_request_forges_a_line_or_breaks_a_response(
    api_key: ApiKey, role: ListenerRole, settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    seed = 3000 + int(api_key)
    target = Target.new(seed, **settings)
    random_values = RandomValues(seed, target.topic_id, strings=STRINGS)
    row = CATALOG[api_key]
    for version in range(row.first_version, row.last_version + 1):
        for number in range(max(3, FRAMES_PER_VERSION // 4)):
            caplog.clear()
            # First a frame with it in every string, then others, which may pass more checks.
            random_values.is_complete = number == 0
            random_values.strings = (PLANTED,) if random_values.is_complete else STRINGS
            client_id = random_values.random.choice((None, PLANTED, LONG))
            frame = header_of(api_key, version, client_id) + random_values.message(
                request_type(api_key), version
            ).encode(version)

            serve(target, frame, api_key, version, role, caplog)
            target.running.run(20)

            check_lines(caplog, (api_key.name, version, frame[:200].hex()))
            if not target.is_intact:
                target = Target.new(seed, **settings)
                random_values.topic_id = target.topic_id


@pytest.mark.parametrize("api_key", sorted(CATALOG), ids=lambda key: key.name.lower())
def test_no_string_of_an_unauthenticated_client_forges_a_line(
    api_key: ApiKey, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target.new(int(api_key), **WITH_SASL)
    random_values = RandomValues(int(api_key), target.topic_id, strings=STRINGS)
    row = CATALOG[api_key]
    for version in range(row.first_version, row.last_version + 1):
        caplog.clear()
        client = target.running.connect(LOCKED)
        frame = header_of(api_key, version, PLANTED) + random_values.message(request_type(api_key), version).encode(
            version
        )

        client.send_bytes(struct.pack(">i", len(frame)) + frame)
        target.running.run(200)

        check_lines(caplog, (api_key.name, version))


def join(client: Client, group_id: str, member_id: str, instance_id: str | None = None) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        reason=PLANTED,
    )
    return client.ask(request, JoinGroupResponse, 9)


def find_coordinator(client: Client, group_id: str) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
    for _ in range(100):
        if not client.ask(request, FindCoordinatorResponse, 4).coordinators[0].error_code:
            return
        client.node.run(50)
    raise AssertionError("there is no coordinator")


def test_client_id_that_is_not_utf_8_breaks_no_group(caplog: pytest.LogCaptureFixture) -> None:
    """Each byte would become U+FFFD with three bytes: the record of the group could not be written."""
    running = Target.new(1).running
    client = running.connect()
    find_coordinator(client, "g")
    running.run(1_000)

    def ask(request: Message, response_type: type[MessageT], version: int) -> MessageT:
        frame = client.frame(request, version)[4:]
        own = b"test"
        at = frame.index(own) - 2
        frame = frame[:at] + (20_000).to_bytes(2, "big") + b"\xff" * 20_000 + frame[at + 2 + len(own) :]
        client.send_bytes(struct.pack(">i", len(frame)) + frame)
        for _ in range(1_000):
            response = client.response_to(request, version)
            if response is not None:
                assert isinstance(response, response_type)
                return response
            running.run(10)
        raise AssertionError("no response")

    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request = JoinGroupRequest(
        group_id="g",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=protocols,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
    )
    joined = ask(request, JoinGroupResponse, 9)
    assert joined.error_code == 0
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id="i",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a")],
    )
    assert ask(sync, SyncGroupResponse, 5).assignment == b"a"
    described = ask(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse, 5).groups[0]
    assert described.members[0].client_id == "\ufffd" * (32_767 // 3)
    check_lines(caplog)


@pytest.mark.parametrize("role", ListenerRole)
def test_path_with_a_nul_is_rejected_on_both_listeners(role: ListenerRole, caplog: pytest.LogCaptureFixture) -> None:
    client = Target.new(1).running.connect(LISTENERS[role])
    name = "listener.name.plaintext.ssl.keystore.location"
    config = AlterableConfig(name=name, config_operation=0, value="/tmp/a\0b")
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])

    response = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse, 1)

    assert response.responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert "NUL" in (response.responses[0].error_message or "")
    check_lines(caplog)


@pytest.mark.parametrize("group_id", [PLANTED, LONG], ids=["planted", "long"])
@pytest.mark.parametrize("instance_id", [None, PLANTED, LONG[:32_000]], ids=["dynamic", "static", "long-static"])
def test_no_string_in_the_life_of_a_group_forges_a_line(
    group_id: str, instance_id: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    running = Target.new(1).running
    client = running.connect()
    find_coordinator(client, group_id)
    running.run(1_000)
    joined = join(client, group_id, "", instance_id)
    member_id = joined.member_id
    if joined.error_code:
        member_id = join(client, group_id, member_id).member_id
    sync = SyncGroupRequest(
        group_id=group_id,
        generation_id=1,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name="range",
    )
    assert client.ask(sync, SyncGroupResponse, 5).error_code == 0
    beat = HeartbeatRequest(group_id=group_id, generation_id=1, member_id=member_id, group_instance_id=instance_id)
    assert client.ask(beat, HeartbeatResponse, 4).error_code == 0
    second = join(running.connect(), group_id, "").member_id
    running.connect().send(JoinGroupRequest(group_id=group_id, member_id=second, protocol_type="consumer"), 9)
    leave = MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=PLANTED)
    assert client.ask(LeaveGroupRequest(group_id=group_id, members=[leave]), LeaveGroupResponse, 5).error_code == 0
    join(client, group_id, "", "other" + PLANTED)
    running.run(20_000)

    lines = [record.getMessage() for record in caplog.records if record.name.startswith("ottla.groups.classic")]
    assert any("leaves; it says" in line for line in lines)
    assert any("session timed out" in line for line in lines)
    check_lines(caplog)


def test_cluster_ids_of_foreign_nodes_are_quoted_and_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    running = Target.new(1).running
    client = running.connect(LISTENERS[ListenerRole.CONTROLLER])
    for number in range(50):
        client.ask(VoteRequest(cluster_id=f"{number}{PLANTED}{LONG[:30_000]}"), VoteResponse, 2)

    lines = [record.getMessage() for record in caplog.records if "a node of cluster" in record.getMessage()]
    assert len(lines) == 1
    assert "(1 rejected so far)" in lines[0]
    check_lines(caplog)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_names_of_users_are_quoted(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    running = Target.new(1, **{key.replace(".", "_"): text for key, text in WITH_PLAIN.items()}).running
    for user in (PLANTED.replace("\x00", ""), LONG[:8_000]):
        client = running.connect(LOCKED)
        client.log_in(user, "guess", mechanism)
        running.run(2_000)
    client = running.connect(LOCKED)
    client.handshake(PLANTED)
    running.run(2_000)

    assert sum("failed" in record.getMessage() for record in caplog.records) >= 2
    check_lines(caplog)


@pytest.mark.parametrize("rules", ["DEFAULT", "RULE:^CN=nobody$/n/"], ids=["mapped", "no-rule"])
@pytest.mark.parametrize("name", [PLANTED, LONG, PLANTED + LONG], ids=["planted", "long", "both"])
def test_subjects_of_certificates_are_quoted(name: str, rules: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = {
        "listeners": f"PLAINTEXT://localhost:9092,{LOCKED}://localhost:9094,CONTROLLER://localhost:9093",
        "advertised_listeners": f"PLAINTEXT://localhost:9092,{LOCKED}://localhost:9094",
        "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LOCKED}:SSL",
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": "/node.pem",
        "ssl_principal_mapping_rules": rules,
    }
    running = Target.new(1, **NO_PERMISSIONS, **settings).running
    client = running.connect(LOCKED)

    running.node.secured(client.peer.connection, f"CN={name}")

    assert client.is_closed is (rules != "DEFAULT" or len(name) > 32_700)
    if not client.is_closed:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        response = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=100), CreateTopicsResponse, 7)
        assert response.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    check_lines(caplog)


def test_longest_name_of_a_topic_is_quoted_whole_in_an_error() -> None:
    from ottla.metadata.topic_name import invalid_topic_name_reason

    name = "\u00e9" * NAME_LENGTH_MAX

    assert name in (invalid_topic_name_reason(name) or "")
