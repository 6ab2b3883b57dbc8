"""Token requests to an issuer over HTTPS: like Kafka's client, cached, and with messages of failures."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from ottla.client.errors import LoginFailedError, NoTokenError
from ottla.client.security import ClientSecurity
from ottla.client.token_endpoint import EndpointLogin, read_endpoint_settings
from ottla.config.jaas import parse_jaas
from ottla.config.properties import parse_properties
from ottla.errors import ConfigurationError
from ottla.sasl.client_login import Login

SECRET = "its s&cré+t"


def login_of(properties: dict[str, str]) -> Login:
    login = ClientSecurity.from_properties(properties).login
    assert login is not None
    return login


def shown(login: Login) -> str:
    """Return the token of the next authentication."""
    return login.new_exchange(lambda stop: 0).first().decode().split("Bearer ")[1].rstrip("\x01")


def prepared(login: Login) -> str:
    asyncio.run(login.prepare())
    return shown(login)


def failure_message(issuer: Any, **more: str) -> str:
    with pytest.raises(NoTokenError) as caught:
        prepared(login_of(issuer.properties(**more)))
    assert SECRET not in str(caught.value)
    assert base64.b64encode(SECRET.encode()).decode()[:8] not in str(caught.value)
    return str(caught.value)


def test_token_request_equals_that_of_the_java_client(issuer: Any) -> None:
    # The lines of JVM Kafka 4.3 for the same properties; it does not encode the scope.
    login = login_of(issuer.properties(sasl_oauthbearer_scope="read write&more"))
    assert prepared(login) == "a.first.token"
    (sent,) = issuer.requests
    assert sent.line == "POST /token?tenant=7 HTTP/1.1"
    assert sent.headers["Authorization"] == f"Basic {base64.b64encode(f'a client:{SECRET}'.encode()).decode()}"
    assert sent.headers["Accept"] == "application/json"
    assert sent.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert sent.headers["Cache-Control"] == "no-cache"
    assert sent.body == b"grant_type=client_credentials&scope=read+write%26more"


def test_id_and_secret_are_url_encoded_if_configured(issuer: Any) -> None:
    prepared(login_of(issuer.properties(sasl_oauthbearer_header_urlencode="true")))
    (sent,) = issuer.requests
    assert base64.b64decode(sent.headers["Authorization"].split()[1]) == b"a+client:its+s%26cr%C3%A9%2Bt"
    assert sent.body == b"grant_type=client_credentials"


@pytest.mark.parametrize(("is_in_keys", "id_and_secret"), [(True, f"a client:{SECRET}"), (False, "of the module:p4ss")])
def test_options_of_the_login_module_replace_missing_keys(issuer: Any, is_in_keys: bool, id_and_secret: str) -> None:
    trust = f'ssl.truststore.type=PEM ssl.truststore.location="{issuer.ca}"'
    properties = issuer.properties(module=f'clientId="of the module" clientSecret=p4ss scope=few {trust}')
    if not is_in_keys:
        properties = {key: text for key, text in properties.items() if "client.credentials" not in key}
    prepared(login_of(properties))
    (sent,) = issuer.requests
    assert base64.b64decode(sent.headers["Authorization"].split()[1]).decode() == id_and_secret
    assert sent.body.endswith(b"&scope=few")


def test_token_is_shared_for_four_fifths_of_its_lifetime(issuer: Any) -> None:
    issuer.gives("one", "two", expires_in=100)
    properties, now_s = issuer.properties(), 1_000.0
    options = parse_jaas("sasl.jaas.config", properties["sasl.jaas.config"]).options
    login = EndpointLogin(read_endpoint_settings(properties, options, urlsplit(issuer.url)), now_s=lambda: now_s)

    async def twenty() -> None:
        await asyncio.gather(*(login.prepare() for _ in range(20)))

    asyncio.run(twenty())
    assert (shown(login), len(issuer.requests)) == ("one", 1)
    now_s += 79.9
    assert (prepared(login), len(issuer.requests)) == ("one", 1)
    now_s += 0.1
    assert (prepared(login), len(issuer.requests)) == ("two", 2)


def test_token_without_expiry_is_requested_for_every_authentication(issuer: Any) -> None:
    issuer.gives("one", "two")
    login = login_of(issuer.properties())
    assert [prepared(login), prepared(login)] == ["one", "two"]


def test_authentication_without_a_token_fails(issuer: Any) -> None:
    with pytest.raises(Exception, match="no token has been requested"):
        shown(login_of(issuer.properties()))


def test_rejection_by_the_issuer_is_not_retried(issuer: Any) -> None:
    issuer.responses = [(401, b'{"error": "invalid_client", "error_description": "no\\nsuch client"}')]
    said = failure_message(issuer)
    assert (
        f"https://127.0.0.1:{issuer.port}/token gives no token: it responded with 401, 'invalid_client: no\\n" in said
    )
    assert "tenant" not in said
    assert len(issuer.requests) == 1


def test_overloaded_issuer_is_retried(issuer: Any) -> None:
    (good,) = issuer.responses
    issuer.responses = [(503, b"<html>"), (429, b"{}"), good]
    assert prepared(login_of(issuer.properties(sasl_login_retry_backoff_ms="1"))) == "a.first.token"
    assert len(issuer.requests) == 3


def test_retries_of_an_overloaded_issuer_end(issuer: Any) -> None:
    issuer.responses = [(503, b"")]
    said = failure_message(issuer, sasl_login_retry_backoff_ms="20", sasl_login_retry_backoff_max_ms="200")
    assert "cannot get a token" in said
    assert said.endswith("it responded with 503")
    assert 2 <= len(issuer.requests) <= 10


def test_slow_issuer_does_not_block_the_loop(issuer: Any) -> None:
    issuer.delay_s = 0.3
    login = login_of(issuer.properties())

    async def beside() -> int:
        turns, waiting = 0, asyncio.create_task(login.prepare())
        while not waiting.done():
            await asyncio.sleep(0.001)
            turns += 1
        await waiting
        return turns

    assert asyncio.run(beside()) > 20


def test_issuer_without_a_response_times_out(issuer: Any) -> None:
    issuer.delay_s = 0.5
    said = failure_message(issuer, sasl_login_read_timeout_ms="50", sasl_login_retry_backoff_max_ms="1")
    assert "timed out" in said or "in time" in said


def test_unreachable_issuer_is_an_error(issuer: Any, free_port: Callable[[], int]) -> None:
    issuer.port = free_port()
    assert "Connection refused" in failure_message(issuer, sasl_login_retry_backoff_max_ms="1")


def test_certificate_of_an_unknown_authority_is_not_trusted(issuer: Any) -> None:
    said = failure_message(issuer, module="")
    assert "cannot be trusted" in said
    assert "ssl.truststore.location among the options of sasl.jaas.config" in said
    assert issuer.requests == []


@pytest.mark.parametrize(
    ("status", "body", "part"),
    [
        pytest.param(200, b"<html>", "no access_token in its response", id="no-json"),
        pytest.param(200, b"[" * 500_000, "no access_token in its response", id="deep"),
        pytest.param(200, b"[1]", "no access_token in its response", id="a-list"),
        pytest.param(200, b'{"access_token": 7}', "no access_token in its response", id="a-number"),
        pytest.param(200, b" " * (1 << 20) + b"{}", "it is larger than 1048576 bytes", id="endless"),
        pytest.param(302, b"", "it responded with 302", id="redirect"),
        pytest.param(400, b"<html>", "it responded with 400", id="error-that-is-not-json"),
    ],
)
def test_invalid_token_response_is_rejected(issuer: Any, status: int, body: bytes, part: str) -> None:
    issuer.responses = [(status, body)]
    assert part in failure_message(issuer)


@pytest.mark.parametrize(
    ("said", "part"),
    [
        pytest.param({"sasl_oauthbearer_token_endpoint_url": "http://127.0.0.1/t"}, "=https://HOST/PATH", id="http"),
        pytest.param(
            {"sasl_oauthbearer_client_credentials_client_id": ""}, "client.id (or clientId in", id="without-an-id"
        ),
        pytest.param(
            {"sasl_oauthbearer_client_credentials_client_secret": ""},
            "client.secret (or clientSecret in",
            id="without-a-secret",
        ),
        pytest.param(
            {"sasl_oauthbearer_token_endpoint_url": "https://me:p4ss@127.0.0.1/t"},
            "without user information",
            id="login-in-url",
        ),
        pytest.param(
            {"sasl_oauthbearer_token_endpoint_url": "https://127.0.0.1:port/t"}, "https://host[:port]", id="no-port"
        ),
        pytest.param({"sasl_login_read_timeout_ms": "soon"}, "sasl.login.read.timeout.ms=soon", id="no-time"),
    ],
)
def test_invalid_settings_are_rejected(issuer: Any, said: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ClientSecurity.from_properties(issuer.properties(**said))
    assert part in str(caught.value)
    assert "p4ss" not in str(caught.value)


def test_repr_has_no_secret(issuer: Any) -> None:
    security = ClientSecurity.from_properties(parse_properties("") | issuer.properties())
    assert SECRET not in repr(security) + repr(security.login) + str(security.login)


def test_no_token_error_is_a_login_failed_error() -> None:
    assert issubclass(NoTokenError, LoginFailedError)
