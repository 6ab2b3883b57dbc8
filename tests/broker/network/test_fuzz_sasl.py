"""Frames on a listener with SASL: within the authentication, and after it.

Within it, handshakes, tokens and any other frames come in any order, sound and broken. A connection is answered with
what the peer can read or closed, what the cluster knows stays as it is, and no line of the log is forged, endless or a
mistake. After it, every API gets the frames that the other listeners get, renewals of the authentication among them.
"""

import logging
import struct
from collections.abc import Iterator

import pytest

from fuzz_target import LOCKED, Target, check_answer, check_lines
from fuzz_values import FRAMES_PER_VERSION, LONG, PLANTED, Chance, frames_of, header_of
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
# What an authentication consists of, and some of the others, none of which changes anything for an authenticated user.
KEYS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_AUTHENTICATE)
OTHER_KEYS = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_GROUPS)


class Dialogue:
    """One connection's frames until it is closed or the frames are over."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.random = chance.random
        self.mechanism = self.random.choice(MECHANISMS)

    def frames(self) -> Iterator[tuple[ApiKey | None, int, bytes]]:
        """Generate frames, each with what it is a request of; None for a token without a header."""
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
            body = self.chance.message(request_type(api_key), version).encode(version)
        return body if self.random.random() < 0.85 else self.chance.mutated(body)

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
                return token if self.random.random() < 0.6 else self.chance.mutated(token)

    def _attribute(self) -> str:
        return self.random.choice(("", "biws", "4096", "-1", "9" * 40, "AAAA", PLANTED, "=2C=3D", LONG))


def read_answers(client: Client, api_key: ApiKey | None, version: int) -> None:
    """Require that what has come, if anything, is one answer."""
    if api_key is not None:
        check_answer(client, api_key, version)
    else:
        client.take_frame()
        assert not client.peer.received


@pytest.mark.parametrize("seed", range(4))
def test_no_sequence_of_frames_within_an_authentication_does_anything_else(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="ottla")
    target = Target.new(seed, **SETTINGS)
    chance = Chance(seed, target.topic_id)
    before = target.kept()
    sent = 0
    while sent < FRAMES_PER_VERSION * 10:
        client = target.running.connect(LOCKED)
        for api_key, version, frame in Dialogue(chance).frames():
            caplog.clear()
            sent += 1
            client.send_bytes(struct.pack(">i", len(frame)) + frame)
            target.running.run(10)
            if not client.is_closed and not client.peer.is_read_from:
                # Guessing is slow: connection.failed.authentication.delay.ms.
                target.running.run(120)
            read_answers(client, api_key, version)
            check_lines(caplog, (api_key, version, frame[:300].hex()))
            if client.is_closed:
                break
            assert client.peer.is_read_from, (api_key, version, frame[:300].hex())
        if not client.is_closed:
            target.running.node.closed(client.peer.connection, "the test is through with it")
    assert target.kept() == before
    target.running.run(1_000)
    assert target.running.connect(LOCKED).log_in(*ALICE).error_code == 0


@pytest.mark.parametrize("settings", [SETTINGS, RENEWED], ids=["for-good", "renewed"])
@pytest.mark.parametrize(
    "api_key",
    [key for key in sorted(CATALOG) if is_served_to(ListenerRole.BROKER, key)],
    ids=lambda key: key.name.lower(),
)
def test_every_frame_after_an_authentication_is_answered_or_closes(
    api_key: ApiKey, settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    seed = 4000 + int(api_key)
    target = Target.new(seed, **settings)
    chance = Chance(seed, target.topic_id)
    row = CATALOG[api_key]
    caplog.set_level(logging.DEBUG, logger="ottla")
    client: Client | None = None
    for version, frame in frames_of(api_key, chance, range(row.first_version, row.last_version + 1)):
        caplog.clear()
        if client is None:
            client = target.running.connect(LOCKED)
            assert client.log_in(*ALICE).error_code == 0

        client.send_bytes(struct.pack(">i", len(frame)) + frame)
        is_answered = not client.is_closed and check_answer(client, api_key, version)
        if not is_answered:
            target.running.run(200)
            is_answered = not client.is_closed and check_answer(client, api_key, version)

        check_lines(caplog, (api_key.name, version, frame.hex()))
        if not is_answered:
            if not client.is_closed:
                target.running.node.closed(client.peer.connection, "the test is through with it")
            client = None
        if not target.is_intact:
            target = Target.new(seed, **settings)
            chance.topic_id = target.topic_id
            client = None
