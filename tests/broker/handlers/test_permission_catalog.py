"""The permission matrix that is compared with Kafka (tests/interop/authorization) has every API."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from permission_catalog import ROWS
from permission_row import NO_SUCH_ID, Row, request_of

from ottla.errors import ErrorCode
from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG, CONTROLLER_ONLY_APIS, is_served_to
from ottla.simulator.world.single_node import RunningNode, World
from ottla.types import Uuid
from ottla.wire.codec import Struct
from ottla.wire.messages.registry import ApiKey, request_type, response_type

NOT_SERVED_BY_KAFKAS_CONTROLLERS = {ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_DELEGATION_TOKEN}
"""APIs that are listed, and fail with UNKNOWN_SERVER_ERROR."""
SAID_BEFORE_ANY_PERMISSION = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
CLIENTS_HAVE_THEIR_OWN_WORDS = {ApiKey.FIND_COORDINATOR}
"""Fields that Kafka's brokers leave empty, too."""


@dataclass
class Nothing:
    """A server of which a request needs no more than ids."""

    topic_ids: dict[str, Uuid] = field(default_factory=lambda: {"orders": NO_SUCH_ID})

    def restore_topics(self) -> None: ...

    def restore_offsets(self) -> None: ...

    def restore_share_offsets(self) -> None: ...

    def drop_auto_created(self) -> None: ...

    def leave_streams_group(self) -> None: ...


@pytest.mark.parametrize("role", ListenerRole, ids=lambda role: role.value)
def test_every_api_is_in_the_permission_matrix(role: ListenerRole) -> None:
    served = {api_key for api_key in CATALOG if is_served_to(role, api_key)}
    asked = {row.api_key for row in ROWS if row.on_controller is (role is ListenerRole.CONTROLLER)}
    left_out: set[ApiKey] = set()
    if role is ListenerRole.CONTROLLER:
        left_out = NOT_SERVED_BY_KAFKAS_CONTROLLERS | SAID_BEFORE_ANY_PERMISSION

    assert asked == served - left_out
    assert asked >= CONTROLLER_ONLY_APIS & served


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title.replace(" ", "-"))
def test_row_builds_requests_of_all_its_versions(row: Row) -> None:
    assert list(row.all_versions) == sorted(set(row.all_versions))
    for version in row.all_versions:
        request = request_of(row, Nothing(), version)
        decoded, _ = request_type(row.api_key).decode_from(memoryview(request.encode(version)), version, 0)

        assert decoded.encode(version) == request.encode(version)


@pytest.fixture(scope="module")
def locked() -> RunningNode:
    """A node at which clients have no permissions; it serves all APIs."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {"ottla_client_metrics_receivers": "log"}
    return World().start_node(authorizer_class_name=authorizer, super_users="User:admin", **settings)


def unauthorized_parts(response: Any) -> Iterator[Struct]:
    """Yield every part of a response with an authorization error and a field for the message."""
    if isinstance(response, Struct):
        code = getattr(response, "error_code", 0)
        if "error_message" in response.fields and ErrorCode(code).name.endswith("_AUTHORIZATION_FAILED"):
            yield response
        for name in response.fields:
            yield from unauthorized_parts(getattr(response, name))
    elif isinstance(response, list):
        for each in response:
            yield from unauthorized_parts(each)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.api_key is not ApiKey.PRODUCE], ids=lambda row: row.title.replace(" ", "-")
)
def test_authorization_errors_have_no_empty_message(locked: RunningNode, row: Row) -> None:
    """Without a message (null) a client shows that of the code; an empty message would be an error without text."""
    client, newest = locked.connect("CONTROLLER" if row.on_controller else "PLAINTEXT"), row.all_versions[-1]
    response = client.ask(request_of(row, Nothing(), newest), response_type(row.api_key), newest)
    empty = [each for each in unauthorized_parts(response) if each.error_message == ""]  # type: ignore[attr-defined]

    assert row.api_key in CLIENTS_HAVE_THEIR_OWN_WORDS or not empty
