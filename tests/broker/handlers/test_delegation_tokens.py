"""Delegation tokens over the wire, to a whole node: the four APIs, logins with tokens, and the limits of those."""

import base64
from typing import Any

import pytest

from locked_node import EVERYTHING, is_served, start
from ottla.errors import ErrorCode
from ottla.sasl.client_login import ClientLogin
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_node import LOCKED, SASL_LISTENER, Client, RunningNode, World
from ottla.wire.codec import Message
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.metadata import MetadataResponse
from ottla.wire.messages.registry import ApiKey, response_type
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest

SECRET_KEY = "the key of all tokens"
TOKENS = {"delegation.token.secret.key": SECRET_KEY, "delegation.token.expiry.time.ms": "60000"}
LONGEST = "x" * 32_700
"""Close to the most that a string of the protocol may have."""
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
REQUESTS = {
    "create": CreateDelegationTokenRequest(),
    "renew": RenewDelegationTokenRequest(hmac=b"x"),
    "expire": ExpireDelegationTokenRequest(hmac=b"x"),
    "describe": DescribeDelegationTokenRequest(owners=None),
}


@pytest.fixture
def node(world: World) -> RunningNode:
    """A node with delegation tokens and the users alice and eve."""
    return start(world, **TOKENS)


def ask(client: Client, request: Message, version: int | None = None) -> Any:
    newest = max(type(request).versions) if version is None else version
    return client.ask(request, response_type(ApiKey(request.api_key)), newest)


def logged_in(node: RunningNode, user: str = "alice", password: str = "secret") -> Client:
    client = node.connect(SASL_LISTENER)
    assert client.log_in(user, password).error_code == ErrorCode.NONE
    return client


def password_of(token: Any) -> str:
    return base64.b64encode(token.hmac).decode()


def with_token(node: RunningNode, token: Any, mechanism: str = "SCRAM-SHA-512", password: str | None = None) -> Any:
    """Return a connection, and the last response of its login with the token."""
    client = node.connect(SASL_LISTENER)
    return client, client.log_in(token.token_id, password or password_of(token), mechanism, is_delegation_token=True)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_token_is_created_described_renewed_and_expired(node: RunningNode, version: int) -> None:
    alice = logged_in(node)
    renewer = CreatableRenewers(principal_type="User", principal_name="eve")
    created = ask(alice, CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1), version)
    assert (created.error_code, created.principal_name) == (ErrorCode.NONE, "alice")
    older = min(version, 2)

    (described,) = ask(alice, DescribeDelegationTokenRequest(owners=None), version).tokens
    assert (described.token_id, described.hmac, described.principal_name) == (created.token_id, created.hmac, "alice")
    assert [each.principal_name for each in described.renewers] == ["eve"]
    assert described.token_requester_principal_name == ("alice" if version == 3 else "")

    node.run(5_000)
    renewed = ask(logged_in(node, "eve", "evil"), RenewDelegationTokenRequest(hmac=created.hmac), older)
    assert 59_000 < renewed.expiry_timestamp_ms - node.clock.wall_ms() <= 60_000
    expired = ask(alice, ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=-1), older)
    assert expired.error_code == ErrorCode.NONE
    assert ask(alice, DescribeDelegationTokenRequest(owners=None), version).tokens == []


@pytest.mark.parametrize("mechanism", SCRAM)
def test_login_with_a_token_is_its_owner_until_it_expires(node: RunningNode, mechanism: str) -> None:
    token = ask(logged_in(node), CreateDelegationTokenRequest())
    node.run(20_000)

    client, login = with_token(node, token, mechanism)

    assert login.error_code == ErrorCode.NONE
    assert login.session_lifetime_ms == token.expiry_timestamp_ms - node.clock.wall_ms()
    info = node.node.connections._connections[client.peer.connection].info
    assert (info.principal, info.is_token_authenticated) == ("User:alice", True)
    assert is_served(client)
    node.run(40_001)
    client.send(EVERYTHING, 9)
    assert client.is_closed


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_session_of_a_token_may_not_manage_tokens(node: RunningNode, request_: Message) -> None:
    client, _ = with_token(node, ask(logged_in(node), CreateDelegationTokenRequest()))

    assert ask(client, request_).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_unauthenticated_client_may_not_manage_tokens(node: RunningNode, request_: Message, listener: str) -> None:
    response = ask(node.connect(listener), request_)

    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_renewers_are_users(node: RunningNode) -> None:
    alice = logged_in(node)
    group = CreatableRenewers(principal_type="Group", principal_name="g")

    response = ask(alice, CreateDelegationTokenRequest(renewers=[group]))

    assert response.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms) == (-1, -1, -1)
    assert ask(alice, DescribeDelegationTokenRequest(owners=None)).tokens == []


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(
            CreateDelegationTokenRequest(renewers=[CreatableRenewers(principal_type="User", principal_name=LONGEST)]),
            id="renewer",
        ),
        pytest.param(
            CreateDelegationTokenRequest(owner_principal_type=f"a:{LONGEST}", owner_principal_name=LONGEST), id="owner"
        ),
    ],
)
def test_longest_names_are_rejected(node: RunningNode, request_: Message, caplog: pytest.LogCaptureFixture) -> None:
    response = ask(logged_in(node), request_)

    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_node_without_a_key_has_no_tokens(world: World, request_: Message) -> None:
    client = logged_in(start(world))

    assert ask(client, request_).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(lambda token: {"password": "x" * 88}, id="wrong-secret"),
        pytest.param(lambda token: {"token_id": "AAAAAAAAAAAAAAAAAAAAAA"}, id="forged-id"),
        pytest.param(lambda token: {"wait_ms": 60_001}, id="expired"),
        pytest.param(lambda token: {"is_delegation_token": False}, id="as-a-user"),
    ],
)
def test_bad_login_with_a_token_is_rejected(node: RunningNode, attempt: Any, caplog: pytest.LogCaptureFixture) -> None:
    token = ask(logged_in(node), CreateDelegationTokenRequest())
    changes = {"token_id": token.token_id, "password": password_of(token), "is_delegation_token": True}
    changes |= attempt(token)
    node.run(changes.pop("wait_ms", 0))
    is_token = changes["is_delegation_token"]
    login = ClientLogin("SCRAM-SHA-256", changes["token_id"], changes["password"], is_delegation_token=is_token)
    exchange = login.new_exchange(SeededRandom(1).randrange)
    client = node.connect(SASL_LISTENER)
    client.handshake("SCRAM-SHA-256")
    challenge = client.send_token(exchange.first())
    assert challenge.error_code == ErrorCode.NONE, "an unknown token must look as a known one does"
    proof = exchange.evaluate(bytes(challenge.auth_bytes))
    assert proof is not None
    client.send(SaslAuthenticateRequest(auth_bytes=proof), 2)
    node.run(200)
    response = client.response_to(SaslAuthenticateRequest(), 2)

    assert response is not None
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED  # type: ignore[attr-defined]
    assert password_of(token) not in caplog.text
    assert SECRET_KEY not in caplog.text


def test_owner_names_choose_the_described_tokens(node: RunningNode) -> None:
    alice, eve = logged_in(node), logged_in(node, "eve", "evil")
    renewer = CreatableRenewers(principal_type="User", principal_name="eve")
    shared = ask(alice, CreateDelegationTokenRequest(renewers=[renewer])).token_id
    own = ask(eve, CreateDelegationTokenRequest()).token_id

    def described(*owners: str) -> set[str]:
        named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners]
        return {each.token_id for each in ask(eve, DescribeDelegationTokenRequest(owners=named)).tokens}

    assert described("eve") == {shared, own}
    assert described("alice") == {shared}
    assert described() == set()


def test_secret_key_is_not_described(node: RunningNode) -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    (result,) = ask(logged_in(node), DescribeConfigsRequest(resources=[resource])).results

    (config,) = [each for each in result.configs if each.name == "delegation.token.secret.key"]
    assert (config.value, config.is_sensitive) == (None, True)


def test_tokens_survive_a_restart(world: World) -> None:
    node = start(world, **TOKENS)
    token = ask(logged_in(node), CreateDelegationTokenRequest())
    node.node.close()

    again = world.start_node(**(LOCKED | TOKENS))
    client, login = with_token(again, token)

    assert login.error_code == ErrorCode.NONE
    assert is_served(client)


def test_renewal_of_a_session_keeps_the_owner(node: RunningNode) -> None:
    token = ask(logged_in(node), CreateDelegationTokenRequest())
    client, _ = with_token(node, token)
    node.run(30_000)
    assert ask(logged_in(node), RenewDelegationTokenRequest(hmac=token.hmac)).error_code == ErrorCode.NONE

    again = client.log_in(token.token_id, password_of(token), "SCRAM-SHA-512", is_delegation_token=True)

    assert again.error_code == ErrorCode.NONE
    assert 59_000 < again.session_lifetime_ms <= 60_000
    assert client.ask(EVERYTHING, MetadataResponse, 9).cluster_id is not None


def test_super_user_creates_tokens_for_others_only_with_the_permission(world: World) -> None:
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice;User:ANONYMOUS",
    }
    node = start(world, **TOKENS, **authorizer)
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")

    created = ask(logged_in(node), request)
    denied = ask(logged_in(node, "eve", "evil"), request)

    assert (created.error_code, created.principal_name, created.token_requester_principal_name) == (0, "bob", "alice")
    assert denied.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (denied.issue_timestamp_ms, denied.hmac) == (-1, b"")
    assert ask(logged_in(node, "eve", "evil"), DescribeDelegationTokenRequest(owners=None)).tokens == []
