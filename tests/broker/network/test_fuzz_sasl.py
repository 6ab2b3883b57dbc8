"""Frames on a listener with SASL: during authentication, and after it.

During authentication, handshakes, tokens and other frames are sent in any order, valid and corrupt. A connection gets
a response that its peer can decode or is closed, the metadata does not change, and no log line is forged, unbounded or
a defect. After it, every API gets the frames that other listeners get, including re-authentication.
"""

import logging
import struct
from collections.abc import Iterator

import pytest

from fuzz_target import LOCKED, Target, check_lines, check_response
from fuzz_values import FRAMES_PER_VERSION, LONG, PLANTED, RandomValues, frames_of, header_of
from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG, is_served_to
from ottla.sasl.client_login import ClientLogin
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_node import ALICE, Client
from ottla.simulator.world.single_node import LOCKED as WITH_PLAIN
from ottla.wire.messages.registry import ApiKey, request_type
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

SETTINGS = {key.replace(".", "_"): text for key, text in WITH_PLAIN.items()} | {"auto_create_topics_enable": "false"}
RENEWED = SETTINGS | {"connections_max_reauth_ms": "3600000"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = ("alice", "alice", "eve", "nobody", PLANTED.replace("\x00", ""), LONG)
# The requests of an authentication, and some others, none of which changes anything for an authenticated user.
KEYS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_AUTHENTICATE)
OTHER_KEYS = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_GROUPS)


class Dialogue:
    """The frames of one connection, until it is closed or no frames are left."""

    def __init__(self, random_values: RandomValues) -> None:
        self.random_values = random_values
        self.random = random_values.random
        self.mechanism = self.random.choice(MECHANISMS)

    def frames(self) -> Iterator[tuple[ApiKey | None, int, bytes]]:
        """Generate frames, each with its API key and version; None for a token without a header."""
        if self.random.random() < 0.8:
            version = self.random.choice((0, 1, 1, 1))
            request = SaslHandshakeRequest(mechanism=self.mechanism)
            yield ApiKey.SASL_HANDSHAKE, version, header_of(ApiKey.SASL_HANDSHAKE, version) + request.encode(version)
            if version == 0:
                for _ in range(3):
                    yield None, 0, self._token()
        for _ in range(self.random.randrange(1, 5)):
            if self.random.random() < 0.1:
                yield None, 0, self._token()
                continue
            api_key = self.random.choice(KEYS if self.random.random() < 0.9 else OTHER_KEYS)
            row = CATALOG[api_key]
            version = self.random.randrange(row.first_version, row.last_version + 1)
            body = self._body(api_key, version)
            yield api_key, version, header_of(api_key, version) + body

    def _body(self, api_key: ApiKey, version: int) -> bytes:
        if api_key is ApiKey.SASL_AUTHENTICATE:
            body = SaslAuthenticateRequest(auth_bytes=self._token()).encode(version)
        elif api_key is ApiKey.SASL_HANDSHAKE and self.random.random() < 0.7:
            body = SaslHandshakeRequest(mechanism=self.mechanism).encode(version)
        else:
            body = self.random_values.message(request_type(api_key), version).encode(version)
        return body if self.random.random() < 0.85 else self.random_values.mutated(body)

    def _token(self) -> bytes:
        user = self.random.choice(USERS)
        match self.random.randrange(5):
            case 0:
                return self.random.randbytes(self.random.choice((0, 1, 40, 10_000)))
            case 1:
                fields = [f"{self.random.choice('nrscipvmaz')}={self._attribute()}" for _ in range(4)]
                return ",".join(fields).encode()
            case 2:
                return f"n,,{','.join(('n=' + user, 'r=' + self._attribute()))}".encode()
            case _:
                exchange = ClientLogin(self.mechanism, user, "secret").new_exchange(SeededRandom(1).randrange)
                token = exchange.first()
                return token if self.random.random() < 0.6 else self.random_values.mutated(token)

    def _attribute(self) -> str:
        return self.random.choice(("", "biws", "4096", "-1", "9" * 40, "AAAA", PLANTED, "=2C=3D", LONG))


def read_responses(client: Client, api_key: ApiKey | None, version: int) -> None:
    """Require that the received bytes, if any, are one response."""
    if api_key is not None:
        check_response(client, api_key, version)
    else:
        client.take_frame()
        assert not client.peer.received


@pytest.mark.parametrize("seed", range(4))
def test_frames_during_authentication_have_no_other_effect(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="ottla")
    target = Target.new(seed, **SETTINGS)
    random_values = RandomValues(seed, target.topic_id)
    before = target.kept()
    sent = 0
    while sent < FRAMES_PER_VERSION * 10:
        client = target.running.connect(LOCKED)
        for api_key, version, frame in Dialogue(random_values).frames():
            caplog.clear()
            sent += 1
            client.send_bytes(struct.pack(">i", len(frame)) + frame)
            target.running.run(10)
            if not client.is_closed and not client.peer.is_read_from:
                # Failures are delayed: connection.failed.authentication.delay.ms.
                target.running.run(120)
            read_responses(client, api_key, version)
            check_lines(caplog, (api_key, version, frame[:300].hex()))
            if client.is_closed:
                break
            assert client.peer.is_read_from, (api_key, version, frame[:300].hex())
        if not client.is_closed:
            target.running.node.closed(client.peer.connection, "the test has finished with it")
    assert target.kept() == before
    target.running.run(1_000)
    assert target.running.connect(LOCKED).log_in(*ALICE).error_code == 0


@pytest.mark.parametrize("settings", [SETTINGS, RENEWED], ids=["for-good", "renewed"])
@pytest.mark.parametrize(
    "api_key",
    [key for key in sorted(CATALOG) if is_served_to(ListenerRole.BROKER, key)],
    ids=lambda key: key.name.lower(),
)
def test_every_frame_after_authentication_is_served_or_closes_the_connection(
    api_key: ApiKey, settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    seed = 4000 + int(api_key)
    target = Target.new(seed, **settings)
    random_values = RandomValues(seed, target.topic_id)
    row = CATALOG[api_key]
    caplog.set_level(logging.DEBUG, logger="ottla")
    client: Client | None = None
    for version, frame in frames_of(api_key, random_values, range(row.first_version, row.last_version + 1)):
        caplog.clear()
        if client is None:
            client = target.running.connect(LOCKED)
            assert client.log_in(*ALICE).error_code == 0

        client.send_bytes(struct.pack(">i", len(frame)) + frame)
        is_served = not client.is_closed and check_response(client, api_key, version)
        if not is_served:
            target.running.run(200)
            is_served = not client.is_closed and check_response(client, api_key, version)

        check_lines(caplog, (api_key.name, version, frame.hex()))
        if not is_served:
            if not client.is_closed:
                target.running.node.closed(client.peer.connection, "the test has finished with it")
            client = None
        if not target.is_intact:
            target = Target.new(seed, **settings)
            random_values.topic_id = target.topic_id
            client = None
