"""A client gets its tokens from an issuer over HTTPS: as Kafka's does, as seldom as it may, and says what failed."""

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
    """Return the token that the next login shows."""
    return login.new_exchange(lambda stop: 0).first().decode().split("Bearer ")[1].rstrip("\x01")


def prepared(login: Login) -> str:
    asyncio.run(login.prepare())
    return shown(login)


def refusal(issuer: Any, **more: str) -> str:
    with pytest.raises(NoTokenError) as caught:
        prepared(login_of(issuer.properties(**more)))
    assert SECRET not in str(caught.value)
    assert base64.b64encode(SECRET.encode()).decode()[:8] not in str(caught.value)
    return str(caught.value)


def test_it_asks_as_the_java_client_does(issuer: Any) -> None:
    # The lines of JVM Kafka 4.3 for the same properties; it leaves the scope's characters as they are.
    login = login_of(issuer.properties(sasl_oauthbearer_scope="read write&more"))
    assert prepared(login) == "a.first.token"
    (asked,) = issuer.asked
    assert asked.line == "POST /token?tenant=7 HTTP/1.1"
    assert asked.headers["Authorization"] == f"Basic {base64.b64encode(f'a client:{SECRET}'.encode()).decode()}"
    assert asked.headers["Accept"] == "application/json"
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert asked.headers["Cache-Control"] == "no-cache"
    assert asked.body == b"grant_type=client_credentials&scope=read+write%26more"


def test_id_and_secret_are_encoded_where_that_is_said(issuer: Any) -> None:
    prepared(login_of(issuer.properties(sasl_oauthbearer_header_urlencode="true")))
    (asked,) = issuer.asked
    assert base64.b64decode(asked.headers["Authorization"].split()[1]) == b"a+client:its+s%26cr%C3%A9%2Bt"
    assert asked.body == b"grant_type=client_credentials"


@pytest.mark.parametrize(("is_in_keys", "id_and_secret"), [(True, f"a client:{SECRET}"), (False, "of the module:p4ss")])
def test_options_of_the_module_stand_in_for_keys(issuer: Any, is_in_keys: bool, id_and_secret: str) -> None:
    trust = f'ssl.truststore.type=PEM ssl.truststore.location="{issuer.ca}"'
    properties = issuer.properties(module=f'clientId="of the module" clientSecret=p4ss scope=few {trust}')
    if not is_in_keys:
        properties = {key: text for key, text in properties.items() if "client.credentials" not in key}
    prepared(login_of(properties))
    (asked,) = issuer.asked
    assert base64.b64decode(asked.headers["Authorization"].split()[1]).decode() == id_and_secret
    assert asked.body.endswith(b"&scope=few")


def test_many_logins_show_one_token_until_four_fifths_of_its_life_are_over(issuer: Any) -> None:
    issuer.gives("one", "two", expires_in=100)
    properties, now_s = issuer.properties(), 1_000.0
    options = parse_jaas("sasl.jaas.config", properties["sasl.jaas.config"]).options
    login = EndpointLogin(read_endpoint_settings(properties, options, urlsplit(issuer.url)), now_s=lambda: now_s)

    async def twenty() -> None:
        await asyncio.gather(*(login.prepare() for _ in range(20)))

    asyncio.run(twenty())
    assert (shown(login), len(issuer.asked)) == ("one", 1)
    now_s += 79.9
    assert (prepared(login), len(issuer.asked)) == ("one", 1)
    now_s += 0.1
    assert (prepared(login), len(issuer.asked)) == ("two", 2)


def test_a_token_without_a_life_is_asked_for_at_every_login(issuer: Any) -> None:
    issuer.gives("one", "two")
    login = login_of(issuer.properties())
    assert [prepared(login), prepared(login)] == ["one", "two"]


def test_nothing_is_shown_before_a_token_is_there(issuer: Any) -> None:
    with pytest.raises(Exception, match="no token has been asked for"):
        shown(login_of(issuer.properties()))


def test_a_refusal_is_told_and_not_tried_again(issuer: Any) -> None:
    issuer.answers = [(401, b'{"error": "invalid_client", "error_description": "no\\nsuch client"}')]
    said = refusal(issuer)
    assert f"https://127.0.0.1:{issuer.port}/token gives no token: it answered 401, 'invalid_client: no\\n" in said
    assert "tenant" not in said
    assert len(issuer.asked) == 1


def test_an_issuer_that_has_no_time_is_asked_again(issuer: Any) -> None:
    (good,) = issuer.answers
    issuer.answers = [(503, b"<html>"), (429, b"{}"), good]
    assert prepared(login_of(issuer.properties(sasl_login_retry_backoff_ms="1"))) == "a.first.token"
    assert len(issuer.asked) == 3


def test_one_that_stays_busy_is_given_up(issuer: Any) -> None:
    issuer.answers = [(503, b"")]
    said = refusal(issuer, sasl_login_retry_backoff_ms="20", sasl_login_retry_backoff_max_ms="200")
    assert "cannot get a token" in said
    assert said.endswith("it answered 503")
    assert 2 <= len(issuer.asked) <= 10


def test_the_loop_goes_on_while_an_issuer_takes_its_time(issuer: Any) -> None:
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


def test_one_that_does_not_answer_is_given_up(issuer: Any) -> None:
    issuer.delay_s = 0.5
    said = refusal(issuer, sasl_login_read_timeout_ms="50", sasl_login_retry_backoff_max_ms="1")
    assert "timed out" in said or "in time" in said


def test_nobody_listens(issuer: Any, free_port: Callable[[], int]) -> None:
    issuer.port = free_port()
    assert "Connection refused" in refusal(issuer, sasl_login_retry_backoff_max_ms="1")


def test_a_certificate_of_an_unknown_authority_is_not_trusted(issuer: Any) -> None:
    said = refusal(issuer, module="")
    assert "is not to be trusted" in said
    assert "ssl.truststore.location among the options of sasl.jaas.config" in said
    assert issuer.asked == []


@pytest.mark.parametrize(
    ("status", "answer", "part"),
    [
        pytest.param(200, b"<html>", "no access_token in its answer", id="no-json"),
        pytest.param(200, b"[" * 500_000, "no access_token in its answer", id="deep"),
        pytest.param(200, b"[1]", "no access_token in its answer", id="a-list"),
        pytest.param(200, b'{"access_token": 7}', "no access_token in its answer", id="a-number"),
        pytest.param(200, b" " * (1 << 20) + b"{}", "it is larger than 1048576 bytes", id="endless"),
        pytest.param(302, b"", "it answered 302", id="elsewhere"),
        pytest.param(400, b"<html>", "it answered 400", id="words-that-are-no-json"),
    ],
)
def test_what_is_no_token_is_refused(issuer: Any, status: int, answer: bytes, part: str) -> None:
    issuer.answers = [(status, answer)]
    assert part in refusal(issuer)


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
            {"sasl_oauthbearer_token_endpoint_url": "https://me:p4ss@127.0.0.1/t"}, "without a login", id="login-in-url"
        ),
        pytest.param(
            {"sasl_oauthbearer_token_endpoint_url": "https://127.0.0.1:port/t"}, "https://host[:port]", id="no-port"
        ),
        pytest.param({"sasl_login_read_timeout_ms": "soon"}, "sasl.login.read.timeout.ms=soon", id="no-time"),
    ],
)
def test_settings_that_do_not_fit_are_refused(issuer: Any, said: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ClientSecurity.from_properties(issuer.properties(**said))
    assert part in str(caught.value)
    assert "p4ss" not in str(caught.value)


def test_it_never_prints_itself(issuer: Any) -> None:
    security = ClientSecurity.from_properties(parse_properties("") | issuer.properties())
    assert SECRET not in repr(security) + repr(security.login) + str(security.login)


def test_a_refusal_of_a_token_is_one_of_a_login() -> None:
    assert issubclass(NoTokenError, LoginFailedError)
